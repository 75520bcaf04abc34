import { createHash } from "node:crypto";

/** Characters of one text that are looked at; the rest of a longer one is not found by a search. */
export const searchedCharsMax = 100_000;
/** Some characters are several words: in so many characters there are no more of any language. */
const searchedWordsMax = 100_000;
/**
 * Bytes that the words of one text take in the index of Postgres, about; it refuses more than 1,048,575. Only a text that is made for it
 * has so many different words.
 */
const entryBytesMax = 1_000_000;
/** What each word takes beside its letters, once: its mark, its end, and the count of its places. And each of its places. */
const wordBytes = 18;
const placeBytes = 2;

/** Words that are made in one go: a few milliseconds. */
const partWords = 4_096;

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
  return [...wordParts(text)].flat();
}

/** The same, some words at a time: all of a long text take tens of milliseconds. There is one part at least. */
export function* wordParts(text: string): Generator<string[]> {
  const different = new Set<string>();
  let part: string[] = [];
  let room = entryBytesMax;
  for (const [whole] of plainText(text).matchAll(words).take(searchedWordsMax)) {
    const word = whole.slice(0, wordCharsMax);
    room -= different.has(word) ? placeBytes : placeBytes + wordBytes + Buffer.byteLength(word);
    if (room < 0) break;
    different.add(word);
    if (part.length === partWords) {
      yield part;
      part = [];
    }
    part.push(word);
  }
  yield part;
}

/** Marks go first: to bring a long row of them into its order takes the square of its length, here seconds. */
function plainText(text: string): string {
  return withoutMarks(withoutMarks(text.slice(0, searchedCharsMax)).normalize("NFKD")).toLowerCase();
}

function withoutMarks(text: string): string {
  return text.replace(/\p{M}+/gu, "");
}

/** The same for every word of a tenant. No vowels and no y: the engines' English stems begin after the first vowel. */
const markLetters = "bcdfghjklmnpqrstvwxz";
const markChars = 14;

/**
 * The words as they stand in the index: behind their tenant's mark, so that they are no words of any other tenant. SQLite's stemmer
 * leaves words of one or two letters alone, and so it must find them with a digit at the end. Their mark is another, so that
 * the digit does not make a longer word of them: "10" is not "100".
 */
export function markWords(tenantId: string, words: readonly string[]): string[] {
  const bytes = createHash("sha256").update(tenantId).digest();
  let mark = "";
  for (let at = 0; at < markChars; at++) mark += markLetters[bytes.readUInt16BE(2 * at) % markLetters.length];
  const shortMark = mark.slice(0, -1) + (mark.endsWith("b") ? "c" : "b");
  return words.map((word) => (word.length < 3 ? `${shortMark}${word}0` : `${mark}${word}`));
}
