/** How far before the limit a better place to cut is searched. */
const searchedChars = 1_000;
/** A cut here would split an escaped character. */
const openEscape = /&[a-z]{0,4}$/;

/** Splits a text into pieces of at most `most` characters: at a line break or a blank if there is one near the limit. */
export function piecesOf(text: string, most: number): string[] {
  const pieces: string[] = [];
  let rest = text;
  while (rest.length > most) {
    const at = cutOf(rest, most);
    pieces.push(rest.slice(0, at));
    rest = rest.slice(at).replace(/^\s+/, "");
  }
  if (rest.trim() !== "" || pieces.length === 0) pieces.push(rest);
  return pieces;
}

function cutOf(text: string, most: number): number {
  const near = text.slice(0, most + 1);
  for (const mark of ["\n", " "]) {
    const at = near.lastIndexOf(mark);
    if (at > Math.max(0, most - searchedChars)) return at;
  }
  const found = openEscape.exec(text.slice(0, most));
  const at = found === null || found.index === 0 ? most : found.index;
  const isHalf = /[\uD800-\uDBFF]/.test(text[at - 1] ?? "");
  return isHalf && at > 1 ? at - 1 : at;
}
