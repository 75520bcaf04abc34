import type { ContextRules } from "../../../manifests/sections/session.ts";

/** How the window of a model is shared out. Tokens. */
export interface WindowShares {
  /** Of what the model is shown, system text and tools included, before it is to be compacted. */
  readonly promptMax: number;
  /** Of the messages that a compaction leaves as they are. */
  readonly keep: number;
  /** Of the message that opens a turn which a compaction cuts through. */
  readonly openingMax: number;
  /** Of a summary. */
  readonly summaryMax: number;
  /** Of what is summed up with one call. */
  readonly pieceMax: number;
}

const summaryTokensMax = 4_096;
const summaryTokensMin = 128;
/** Of what is said around the transcript. */
const taskTokens = 256;

/**
 * Shares out a window of which `fixed` is taken by system text and tools. Where the manifest wants more than there is, half of the window
 * is for the prompt, and half of what that leaves to messages is kept.
 */
export function windowShares(rules: ContextRules, routeWindow: number, fixed: number): WindowShares {
  const window = rules.context_window_tokens ?? routeWindow;
  const promptMax = window - Math.min(rules.reserve_tokens, Math.floor(window / 2));
  const room = Math.max(0, promptMax - fixed);
  const summaryMax = Math.min(summaryTokensMax, Math.max(summaryTokensMin, Math.floor(room / 4)));
  return {
    promptMax,
    keep: Math.min(rules.keep_recent_tokens, Math.floor(room / 2)),
    openingMax: Math.floor(room / 2),
    summaryMax,
    pieceMax: Math.max(summaryTokensMin, window - 2 * summaryMax - taskTokens),
  };
}
