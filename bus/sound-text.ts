// Replaces characters that not every component can represent. Postgres has no NUL in text, and a lone surrogate has no
// UTF-8 form, so stores, other languages and parsers treat them differently. They are replaced on input, so that
// frames, answers and the log agree.

const replacement = "\uFFFD";
/** Detects text that may need a replacement. Nearly all text does not, and is not examined further. */
const suspect = /[\0\ud800-\udfff]/;

/** Replaces each NUL and each lone surrogate by U+FFFD. */
export function soundText(text: string): string {
  return suspect.test(text) ? text.replaceAll("\0", replacement).toWellFormed() : text;
}

/** Does the same in JSON text, including escapes. Invalid JSON is treated as plain text. */
export function soundJson(json: string): string {
  // Escaped surrogates are decoded first, because the other half may be unescaped.
  const spelled = json.replace(/\\(?:u(0000|d[89a-f][0-9a-f]{2})|.)/gis, (whole, code: string | undefined) =>
    code === undefined ? whole : String.fromCharCode(Number.parseInt(code, 16)),
  );
  return soundText(spelled);
}

/** Does the same for a text in pieces, and rejoins surrogate pairs that were split. */
export class SoundPieces {
  /** A high surrogate whose low surrogate has not arrived yet. */
  #half = "";

  /** Number of buffered characters. */
  get held(): number {
    return this.#half.length;
  }

  /** Returns the text that is complete so far, possibly ""; with `isLast` all of it. */
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
