import type { TokenEncoding, TokenTask } from "./token-counter.ts";

// Entry of the thread that counts tokens, which calls `countTokens` for each task. The tables of an encoding are some hundred megabytes
// in memory and a quarter of a second to load: they are here, and go when the thread goes.

/** Characters without a break that are looked at together: the time for a word, or for blanks, grows with the square of their number. */
const wordCharsMax = 256;
const longWord = new RegExp(`\\S{${wordCharsMax + 1},}|\\s{${wordCharsMax + 1},}`, "g");

type Count = (text: string, options: { disallowedSpecial: Set<string> }) => number;

const loaded: Partial<Record<TokenEncoding, Promise<Count>>> = {};
const load: Readonly<Record<TokenEncoding, () => Promise<{ readonly countTokens: Count }>>> = {
  o200k_base: () => import("gpt-tokenizer/esm/encoding/o200k_base"),
  cl100k_base: () => import("gpt-tokenizer/esm/encoding/cl100k_base"),
};
/** What looks like a mark of the model's own is text like any other. */
const options = { disallowedSpecial: new Set<string>() };

/** How many tokens each text is. */
export async function countTokens({ encoding, texts }: TokenTask): Promise<number[]> {
  loaded[encoding] ??= load[encoding]().then((module) => module.countTokens);
  const count = await loaded[encoding];
  return texts.map((text) => countText(count, text));
}

/** Words and blanks longer than any that people write are counted in parts, which may be a few tokens more. */
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
