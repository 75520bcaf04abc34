// Sanitizes untrusted text of models, tools and people, so that a terminal executes no control sequence in it.

/** Control and invisible characters, except line breaks, tabs, and the joiners that scripts and emoji need. */
const unruly = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;
/** Characters that break the line, move the cursor or change the text direction. */
const offLine = /[\p{Cc}\p{Cf}\u2028\u2029]+/gu;
/** Characters two columns wide. */
const wide =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/u;
/** Characters of zero width. */
const narrow = /[\p{Mn}\p{Me}\p{Cf}]/u;
const deleted = 0x7f;

/** Returns untrusted text on one line, without control characters. */
export function inert(text: string): string {
  return text.replaceAll(offLine, " ").trim();
}

/** Returns untrusted text with its lines and tabs. Control characters become visible signs; carriage returns are removed. */
export function harmless(text: string): string {
  return text.replaceAll("\r", "").replaceAll(unruly, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === deleted ? "\u2421" : code < 0xa0 ? "\ufffd" : "";
  });
}

/** Returns a value as equivalent JSON on one line, without control characters. */
export function harmlessJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(offLine, (found) =>
    found
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** Cuts a line to a terminal width. */
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

/** Returns the terminal width of a line. */
export function widthOf(line: string): number {
  let width = 0;
  for (const character of line) width += narrow.test(character) ? 0 : wide.test(character) ? 2 : 1;
  return width;
}
