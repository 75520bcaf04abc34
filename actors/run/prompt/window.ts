import type { ContextRules } from "../../../manifests/sections/session.ts";

/** The shares of a model's context window, in tokens. */
export interface WindowShares {
  /** Max tokens of a prompt with system text and tools; a longer prompt triggers a compaction. */
  readonly promptMax: number;
  /** Max tokens of the messages that a compaction keeps. */
  readonly keep: number;
  /** Max tokens of the opening message of a turn that a compaction splits. */
  readonly openingMax: number;
  /** Max tokens of a summary. */
  readonly summaryMax: number;
  /** Max tokens of the transcript in one summary call. */
  readonly pieceMax: number;
}

const summaryTokensMax = 4_096;
const summaryTokensMin = 128;
/** Tokens of the instructions around the transcript. */
const taskTokens = 256;

/**
 * Divides the context window; system text and tools take `fixed` tokens of it. If the manifest reserves more than half of the window, the
 * prompt gets half. At most half of the remaining room keeps messages.
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
