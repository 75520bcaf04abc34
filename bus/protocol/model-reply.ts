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
}
