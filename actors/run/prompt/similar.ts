import type { ContextMessage } from "../../log/message.ts";

// Similarity of messages to a query by BM25, with term frequencies of this conversation (Robertson and Zaragoza, "The Probabilistic
// Relevance Framework", 2009). The terms of a message are counted once and cached. The work yields regularly to other tasks of the thread.

/** Parameters k1 and b of BM25: the saturation of repeated terms and the weight of message length. */
const saturation = 1.2;
const lengthWeight = 0.75;
/** Max characters of a message that are indexed. */
const charsMax = 4_000;
/** Characters and term lookups between two pauses: a few milliseconds. */
const slice = 32_000;

const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+|[\p{L}\p{N}]+/gu;
const unspaced = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

interface Words {
  readonly counts: ReadonlyMap<string, number>;
  readonly length: number;
}

const known = new WeakMap<ContextMessage, Words>();

/** Returns a BM25 score for each message, 0 if it shares no term with the query. Awaits `pause` regularly, so that others can run. */
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

/** Counts characters and term lookups since the last pause. */
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

/** Terms that occur in both maps. Iterates over the smaller one. */
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
    // Scripts without spaces are indexed by pairs of characters.
    if (!unspaced.test(found)) add(found);
    else for (let at = 0; at < Math.max(1, found.length - 1); at++) add(found.slice(at, at + 2));
  }
  return { counts, length };
}
