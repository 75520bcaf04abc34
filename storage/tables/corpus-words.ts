import { markWords, searchWords } from "./search-words.ts";

// The words of documents and memories (decision 137): those of the session search, with pairs of characters for scripts
// without spaces. Both engines reduce English words to their stems.

/** Max different words of a query; further ones are ignored (decision 195). */
const queryWordsMax = 32;

const spaceless = /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]$/u;

/**
 * Returns the words of a text for the index. A run of characters without spaces gives each character and each pair of
 * neighbours.
 */
function indexedWords(text: string): string[] {
  const words: string[] = [];
  let before: string | null = null;
  for (const word of searchWords(text)) {
    const isCharacter = spaceless.test(word);
    if (isCharacter && before !== null) words.push(before + word);
    words.push(word);
    before = isCharacter ? word : null;
  }
  return words;
}

/** Returns the words of a text as both engines index them, with the mark of the tenant. */
export function indexText(tenantId: string, text: string): string {
  return markWords(tenantId, indexedWords(text)).join(" ");
}

/**
 * Returns a query for texts with at least one word of `text`, in a form that both FTS5 and websearch_to_tsquery read;
 * null if it has no words. Pairs of characters replace their characters, which match too much.
 */
export function anyWordQuery(tenantId: string, text: string): string | null {
  const words = indexedWords(text);
  const wanted = new Set<string>();
  for (const [at, word] of words.entries()) {
    const inPair = spaceless.test(word) && (isPair(words[at - 1]) || isPair(words[at + 1]));
    if (!inPair) wanted.add(word);
    if (wanted.size === queryWordsMax) break;
  }
  if (wanted.size === 0) return null;
  return markWords(tenantId, [...wanted])
    .map((word) => `"${word}"`)
    .join(" OR ");
}

function isPair(word: string | undefined): boolean {
  const [first, second, ...rest] = word ?? "";
  return (
    first !== undefined && second !== undefined && rest.length === 0 && spaceless.test(first) && spaceless.test(second)
  );
}

/** Returns the subquery for the entries of a full-text table that match a query of `anyWordQuery`, as `key` and `score`. */
export function wordMatches(table: string, key: string): { readonly sqlite: string; readonly postgres: string } {
  return {
    sqlite: `SELECT rowid AS ${key}, -bm25(${table}) AS score FROM ${table} WHERE ${table} MATCH ?`,
    postgres: `SELECT ${key}, ts_rank_cd(document, query.words) AS score
      FROM ${table}, (SELECT websearch_to_tsquery('svc_words', ?) AS words) query WHERE document @@ query.words`,
  };
}
