/** Characters of one text that are looked at; the rest of a longer one is not found by a search. */
export const searchedCharsMax = 100_000;

/** Longer words are cut: engines have limits of their own, and nobody types them. */
const wordCharsMax = 100;

/** Words that are written without spaces between them are found by their characters. */
const words =
  /[[\p{L}\p{N}]&&[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]]|[[\p{L}\p{N}]--[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]]+/gv;

/**
 * The words of a text as both engines index and look for them: lower case, without accents, nothing but letters and digits. What
 * an engine could take for syntax is not among them.
 */
export function searchWords(text: string): string[] {
  const plain = text
    .slice(0, searchedCharsMax)
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase();
  return (plain.match(words) ?? []).map((word) => word.slice(0, wordCharsMax));
}
