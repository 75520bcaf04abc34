import type { ModelPrice } from "../manifests/registries.ts";

/** Tokens of one model call; `input` excludes cached tokens. */
export interface PricedTokens {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** Returns the cost of one model call in USD, by kind of token. All zero if no rates are known. */
export function costOf(tokens: PricedTokens, price: ModelPrice | null) {
  if (price === null) return { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const input = (tokens.input * price.input) / 1e6;
  const output = (tokens.output * price.output) / 1e6;
  const cacheRead = (tokens.cacheRead * price.cache_read) / 1e6;
  const cacheWrite = (tokens.cacheWrite * price.cache_write) / 1e6;
  return { input, output, cacheRead, cacheWrite, total: input + output + cacheRead + cacheWrite };
}
