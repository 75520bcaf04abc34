/** Reason for the end of a reply, in the service's own terms. */
export type StopReason =
  | "end_turn"
  | "tool_use"
  | "max_tokens"
  | "max_turns"
  | "stop_sequence"
  | "pause_turn"
  | "refusal"
  | "unknown";

/** Tokens as the provider counted them; `input` excludes cached ones. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  /** Tokens of the output that are reasoning; absent if the provider does not say. */
  readonly reasoning?: number;
}

/** Cost in USD, by kind of token. */
export interface Cost {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly total: number;
}

/**
 * Usage of a turn over all its model calls and those of its tasks. `totalTokens` is that of its own last call and shows
 * how full the context is.
 */
export interface TurnUsage extends TokenCount {
  readonly totalTokens: number;
  readonly cost: Cost;
}
