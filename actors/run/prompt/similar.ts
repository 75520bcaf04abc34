import type { ContextMessage } from "../../log/message.ts";

// What of a conversation is like what is asked now, by BM25 over its own words (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework", 2009). The words of a message are counted once and kept with it, a few messages at a time.

/** How soon more of the same word counts for less, and how far long messages are held to be long. */
const saturation = 1.2;
const lengthWeight = 0.75;
/** Characters of a message that are read. */
const charsMax = 4_000;
/** Characters that are read, and terms that are looked up, before others have their turn: some milliseconds. */
const slice = 32_000;

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
  const asked = countWords(query).counts;
  const all: Words[] = [];
  const work = new Work(pause);
  for (const message of messages) {
    if (!known.has(message)) work.add(Math.min(charsMax, message.content.length));
    all.push(wordsOf(message));
    if (work.isDue) await work.rest();
  }
  const average = all.reduce((sum, { length }) => sum + length, 0) / Math.max(1, all.length) || 1;
  const having = new Map<string, number>();
  const shared: string[][] = [];
  for (const { counts } of all) {
    const terms = sharedTerms(asked, counts);
    for (const term of terms) having.set(term, (having.get(term) ?? 0) + 1);
    shared.push(terms);
    work.add(Math.min(asked.size, counts.size));
    if (work.isDue) await work.rest();
  }
  const scores: number[] = [];
  for (const [at, { counts, length }] of all.entries()) {
    const norm = saturation * (1 - lengthWeight + (lengthWeight * length) / average);
    let score = 0;
    for (const term of shared[at] as string[]) {
      const weight = Math.log(1 + (all.length - (having.get(term) ?? 0) + 0.5) / ((having.get(term) ?? 0) + 0.5));
      const count = counts.get(term) ?? 0;
      score += (weight * count * (saturation + 1)) / (count + norm);
    }
    scores.push(score);
    work.add((shared[at] as string[]).length);
    if (work.isDue) await work.rest();
  }
  return scores;
}

/** Characters that are read and terms that are looked up since others had their turn. */
class Work {
  readonly #pause: () => Promise<void>;
  #done = 0;

  constructor(pause: () => Promise<void>) {
    this.#pause = pause;
  }

  add(work: number): void {
    this.#done += work;
  }

  get isDue(): boolean {
    return this.#done >= slice;
  }

  rest(): Promise<void> {
    this.#done = 0;
    return this.#pause();
  }
}

/** The terms that are in both, looked up in the larger one. */
function sharedTerms(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): string[] {
  const [fewer, more] = one.size < other.size ? [one, other] : [other, one];
  const terms: string[] = [];
  for (const term of fewer.keys()) if (more.has(term)) terms.push(term);
  return terms;
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
