// Text of models, tools and people on its way to a terminal, which must not take any of it for orders.

/** What a terminal obeys or hides: all but line breaks, tabs, and the joiners that scripts and emoji need. */
const unruly = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;
/** What would begin a line of its own, move the cursor, or turn the order of what follows. */
const offLine = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;
/** What takes two columns of a terminal. */
const wide =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/u;
/** What takes none. */
const narrow = /[\p{Mn}\p{Me}\p{Cf}]/u;
const deleted = 0x7f;

/** Text of others on one line, which a terminal must not take for orders. */
export function inert(text: string): string {
  return text.replaceAll(offLine, " ").trim();
}

/** Text of others with its lines and tabs. Of what a terminal would obey there are signs to be seen; carriage returns are left out. */
export function harmless(text: string): string {
  return text.replaceAll("\r", "").replaceAll(unruly, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === deleted ? "\u2421" : code < 0xa0 ? "\ufffd" : "";
  });
}

/** A value as JSON on one line that means the same, with nothing in it that a terminal obeys. */
export function harmlessJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(offLine, (found) =>
    found
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** A line of text, cut to so many columns of a terminal. */
export function cutTo(line: string, columns: number): string {
  if (widthOf(line) <= columns) return line;
  let kept = "";
  let width = 1;
  for (const character of line) {
    width += widthOf(character);
    if (width > columns) break;
    kept += character;
  }
  return `${kept}…`;
}

/** How many columns of a terminal a line takes. */
export function widthOf(line: string): number {
  let width = 0;
  for (const character of line) width += narrow.test(character) ? 0 : wide.test(character) ? 2 : 1;
  return width;
}
