/** Why an answer ended, in the service's own words. */
export type StopReason =
  | "end_turn"
  | "tool_use"
  | "max_tokens"
  | "max_turns"
  | "stop_sequence"
  | "pause_turn"
  | "refusal"
  | "unknown";

/** Tokens as the provider counted them; `input` is without cached ones. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  /** Tokens of the output that are reasoning; absent if the provider does not say. */
  readonly reasoning?: number;
}

/** USD, by what it was spent on. */
export interface Cost {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly total: number;
}

/**
 * What a turn used over all its model calls, and those of its tasks. `totalTokens` is the last one's of its own, so it shows how full the
 * context is.
 */
export interface TurnUsage extends TokenCount {
  readonly totalTokens: number;
  readonly cost: Cost;
}
