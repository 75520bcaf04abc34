import type { ContextMessage } from "../../log/message.ts";

// What of a conversation is like what is asked now, by BM25 over its own words (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework", 2009). The words of a message are counted once and kept with it, a few messages at a time.

/** How soon more of the same word counts for less, and how far long messages are held to be long. */
const saturation = 1.2;
const lengthWeight = 0.75;
/** Characters of a message that are read. */
const charsMax = 4_000;
/** Characters that are read before others have their turn: about a millisecond. */
const sliceChars = 32_000;

const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+|[\p{L}\p{N}]+/gu;
const unspaced = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

interface Words {
  readonly counts: ReadonlyMap<string, number>;
  readonly length: number;
}

const known = new WeakMap<ContextMessage, Words>();

/** A score for each message, 0 for what shares no word with the query. `pause` is awaited now and then. */
export async function similarities(
  messages: readonly ContextMessage[],
  query: string,
  pause: () => Promise<void>,
): Promise<number[]> {
  const asked = [...countWords(query).counts.keys()];
  const all: Words[] = [];
  let read = 0;
  for (const message of messages) {
    if (!known.has(message)) read += Math.min(charsMax, message.content.length);
    all.push(wordsOf(message));
    if (read < sliceChars) continue;
    read = 0;
    await pause();
  }
  const average = all.reduce((sum, { length }) => sum + length, 0) / Math.max(1, all.length) || 1;
  const weights = asked.map((term) => {
    const having = all.reduce((count, { counts }) => count + (counts.has(term) ? 1 : 0), 0);
    return Math.log(1 + (all.length - having + 0.5) / (having + 0.5));
  });
  return all.map(({ counts, length }) => {
    const norm = saturation * (1 - lengthWeight + (lengthWeight * length) / average);
    let score = 0;
    for (const [at, term] of asked.entries()) {
      const count = counts.get(term) ?? 0;
      score += ((weights[at] ?? 0) * count * (saturation + 1)) / (count + norm);
    }
    return score;
  });
}

function wordsOf(message: ContextMessage): Words {
  let words = known.get(message);
  if (words === undefined) {
    words = countWords(message.content);
    known.set(message, words);
  }
  return words;
}

function countWords(text: string): Words {
  const counts = new Map<string, number>();
  let length = 0;
  const add = (term: string): void => {
    counts.set(term, (counts.get(term) ?? 0) + 1);
    length++;
  };
  for (const [found] of text.slice(0, charsMax).toLowerCase().matchAll(word)) {
    // Where nothing stands between words, each two characters are one.
    if (!unspaced.test(found)) add(found);
    else for (let at = 0; at < Math.max(1, found.length - 1); at++) add(found.slice(at, at + 2));
  }
  return { counts, length };
}
