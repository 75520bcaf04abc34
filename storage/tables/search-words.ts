import { createHash } from "node:crypto";

/** Max indexed characters of a text; searches do not find the rest. */
export const searchedCharsMax = 100_000;
/** Max words of a text. Some characters become several words, but no natural text exceeds this. */
const searchedWordsMax = 100_000;
/**
 * Approximate max bytes that the words of one text take in the Postgres index, whose own limit is 1,048,575. Only
 * artificial texts have so many distinct words.
 */
const entryBytesMax = 1_000_000;
/** Bytes of each distinct word besides its letters: its mark, its end, and the count of its positions. */
const wordBytes = 18;
/** Bytes of each position of a word. */
const placeBytes = 2;

/** Words per part, which take a few milliseconds. */
const partWords = 4_096;

/** Longer words are truncated: engines have limits of their own, and searches rarely contain such words. */
const wordCharsMax = 100;

/** Scripts without spaces between words are indexed by character. */
const words =
  /[[\p{L}\p{N}]&&[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]]|[[\p{L}\p{N}]--[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]]+/gv;

/**
 * Returns the words of a text in the form that both engines index: lower case, without accents, only letters and
 * digits. They contain no character of an engine's query syntax.
 */
export function searchWords(text: string): string[] {
  return [...wordParts(text)].flat();
}

/** Yields the words in parts, because a long text takes tens of milliseconds in total. Yields at least one part. */
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

/**
 * Removes combining marks before normalization, because sorting a long sequence of them takes quadratic time, here
 * seconds.
 */
function plainText(text: string): string {
  return withoutMarks(withoutMarks(text.slice(0, searchedCharsMax)).normalize("NFKD")).toLowerCase();
}

function withoutMarks(text: string): string {
  return text.replace(/\p{M}+/gu, "");
}

/**
 * The letters of a tenant's mark. They exclude vowels and y, because the engines' English stemmers start after the
 * first vowel.
 */
const markLetters = "bcdfghjklmnpqrstvwxz";
const markChars = 14;

/**
 * Returns the words with the tenant's mark as a prefix, so that they match no other tenant's words. SQLite's stemmer
 * skips words of one or two letters, so these also get a digit at the end. They have a different mark, so that "10"
 * with its digit does not equal "100".
 */
export function markWords(tenantId: string, words: readonly string[]): string[] {
  const bytes = createHash("sha256").update(tenantId).digest();
  let mark = "";
  for (let at = 0; at < markChars; at++) mark += markLetters[bytes.readUInt16BE(2 * at) % markLetters.length];
  const shortMark = mark.slice(0, -1) + (mark.endsWith("b") ? "c" : "b");
  return words.map((word) => (word.length < 3 ? `${shortMark}${word}0` : `${mark}${word}`));
}
