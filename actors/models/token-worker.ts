import type { TokenEncoding, TokenTask } from "./token-counter.ts";

// Entry of the thread that counts tokens; it calls `countTokens` for each task. The tables of a tokenizer take some hundred
// megabytes and a quarter of a second to load, and are freed when the thread ends.

/**
 * Max characters without a break that are counted together: the time for a word, or a run of blanks, is quadratic in its length.
 */
const wordCharsMax = 256;
const longWord = new RegExp(`\\S{${wordCharsMax + 1},}|\\s{${wordCharsMax + 1},}`, "g");

type Count = (text: string, options: { disallowedSpecial: Set<string> }) => number;

const loaded: Partial<Record<TokenEncoding, Promise<Count>>> = {};
const load: Readonly<Record<TokenEncoding, () => Promise<{ readonly countTokens: Count }>>> = {
  o200k_base: () => import("gpt-tokenizer/esm/encoding/o200k_base"),
  cl100k_base: () => import("gpt-tokenizer/esm/encoding/cl100k_base"),
};
/** Text that looks like a special token is counted as ordinary text. */
const options = { disallowedSpecial: new Set<string>() };

/** Returns the number of tokens of each text. */
export async function countTokens({ encoding, texts }: TokenTask): Promise<number[]> {
  loaded[encoding] ??= load[encoding]().then((module) => module.countTokens);
  const count = await loaded[encoding];
  return texts.map((text) => countText(count, text));
}

/** Counts unusually long words and runs of blanks in parts, which may add a few tokens. */
function countText(count: Count, text: string): number {
  let tokens = 0;
  let from = 0;
  for (const { index, 0: word } of text.matchAll(longWord)) {
    tokens += count(text.slice(from, index), options);
    for (let at = 0; at < word.length; at += wordCharsMax) tokens += count(word.slice(at, at + wordCharsMax), options);
    from = index + word.length;
  }
  return tokens + count(text.slice(from), options);
}
