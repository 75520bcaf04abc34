// Text from outside that is text for everybody. Postgres has no NUL in text, and half of a surrogate pair has no bytes: stores, other
// languages and the next parser each make something else of them. They are replaced where the text enters, so that frames, answers
// and the log say the same.

const replacement = "\uFFFD";
/** What may have to be replaced: nearly all text has none of it, and is looked at a character at a time only where it has. */
const suspect = /[\0\ud800-\udfff]/;

/** The text with U+FFFD in the place of each NUL and each half of a surrogate pair. */
export function soundText(text: string): string {
  return suspect.test(text) ? text.replaceAll("\0", replacement).toWellFormed() : text;
}

/** JSON text that means sound text, its escapes too. What is no JSON is made sound as the text that it is. */
export function soundJson(json: string): string {
  // Escaped halves are spelled out first: the other half may stand beside them as it is.
  const spelled = json.replace(/\\(?:u(0000|d[89a-f][0-9a-f]{2})|.)/gis, (whole, code: string | undefined) =>
    code === undefined ? whole : String.fromCharCode(Number.parseInt(code, 16)),
  );
  return soundText(spelled);
}

/** Makes a text sound that comes in pieces: a pair that is cut in two is put together again. */
export class SoundPieces {
  /** The first half of a pair whose second has not come. */
  #half = "";

  /** Characters that were taken and not given. */
  get held(): number {
    return this.#half.length;
  }

  /** As much of the text as can be told, "" when that is nothing; with `isLast` all of it. */
  take(piece: string, isLast: boolean): string {
    if (this.#half === "" && !suspect.test(piece)) return piece;
    const text = this.#half + piece;
    const cut = !isLast && endsInHalf(text) ? text.length - 1 : text.length;
    this.#half = text.slice(cut);
    return soundText(text.slice(0, cut));
  }
}

function endsInHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}
