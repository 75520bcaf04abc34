import { estimatedTokens } from "../../../governance/output-count.ts";
import { isSummary } from "../../log/compaction.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { countPrompt, runEncoding } from "../model/token-counts.ts";
import { messagesTokens } from "../prompt/token-estimate.ts";
import { type WindowShares, windowShares } from "../prompt/window.ts";
import { toolListJson } from "../spec/prompt-prefix.ts";
import { type CompactionOutcome, type CompactionPlan, compactBranch } from "./compaction.ts";
import { cutLastResults } from "./cut-results.ts";

// The rules for compaction: its triggers, and the part of the branch that stays (decisions 97 and 98).

/** Characters per estimated token. */
const tokenCharacters = 4;
const anyNumber = Number.POSITIVE_INFINITY;

/** Compacts before a model call if the strategy requires it. Null if it does not. */
export function compactionDue(runContext: RunContext): Promise<void> | null {
  const { session, context } = runContext.spec.agent;
  if (runContext.branch.summaryFailed) return null;
  if (session.kind === "summarizing") return summaryDue(runContext, session.messages);
  if (session.kind !== "compacting" || !context.compaction_enabled) return null;
  const shares = sharesOf(runContext);
  const shown = runContext.branch.shownBy(runContext.spec.agent);
  const tokens = fixedTokens(runContext) + messagesTokens(shown);
  if (runEncoding(runContext) === null)
    return tokens <= shares.promptMax ? null : attempt(runContext, regular("threshold", shares));
  // A text rarely has more tokens than characters, so a short prompt needs no exact count.
  return tokens * tokenCharacters <= shares.promptMax ? null : countedDue(runContext, shown, shares);
}

async function countedDue(
  runContext: RunContext,
  shown: readonly ContextMessage[],
  shares: WindowShares,
): Promise<void> {
  if ((await countPrompt(runContext, shown)) > shares.promptMax)
    await attempt(runContext, regular("threshold", shares));
}

/**
 * `summarizing:N` keeps N messages. It waits until half of N, and at least four, older messages exist. A long thread thus needs no summary
 * in each turn. Until then those messages stay in the prompt.
 */
function summaryDue(runContext: RunContext, messages: number): Promise<void> | null {
  const { messages: branch } = runContext.branch;
  const count = branch.length - (isSummary(branch[0]) ? 1 : 0);
  if (count < messages + Math.max(4, Math.ceil(messages / 2))) return null;
  const plan = regular("summarizing", sharesOf(runContext));
  return attempt(runContext, { ...plan, keep: () => ({ tokens: anyNumber, messages }), gainTokensMin: 0 });
}

/** Compacts after the turn's reply, for manifests that ask for it. */
export async function compactAfterTurn(runContext: RunContext): Promise<void> {
  if (!runContext.branch.summaryFailed) await attempt(runContext, regular("after_turn", sharesOf(runContext)));
}

/**
 * Shortens a prompt that a provider has refused as too long. The provider's real bound is unknown. The older part is summarized; if that is
 * not enough, the newest results are cut. False if neither was possible. A sub-agent's transcript is not summarized.
 */
export async function shortenAtOverflow(runContext: RunContext): Promise<boolean> {
  const shares = sharesOf(runContext);
  const refused = await countPrompt(runContext, runContext.branch.shownBy(runContext.spec.agent));
  const isCompacted = !runContext.stream.isMute && (await compactAtOverflow(runContext, shares));
  if (runContext.cancellation.cancelled) return isCompacted;
  const left = isCompacted ? await countPrompt(runContext, runContext.branch.shownBy(runContext.spec.agent)) : refused;
  if (left <= Math.min(shares.promptMax, refused / 2)) return isCompacted;
  return (await cutLastResults(runContext, shares.promptMax)) || isCompacted;
}

/** Compacts the refused branch to at most half. False if that was not possible. */
async function compactAtOverflow(runContext: RunContext, shares: WindowShares): Promise<boolean> {
  const { kind } = await compactBranch(runContext, {
    ...regular("overflow", shares),
    keep: (tokens) => ({ tokens: Math.min(shares.keep, Math.floor(tokens / 2)), messages: anyNumber }),
    openingTokensMax: (tokens) => Math.min(shares.openingMax, Math.floor(tokens / 2)),
    gainTokensMin: 0,
  });
  return kind === "compacted";
}

/** Compacts on request of a client: to at most half, however short the thread is. */
export function compactOnRequest(runContext: RunContext, instructions: string): Promise<CompactionOutcome> {
  const shares = sharesOf(runContext);
  return compactBranch(runContext, {
    reason: "manual",
    shares,
    keep: (tokens) => ({ tokens: Math.min(shares.keep, Math.floor(tokens / 2)), messages: anyNumber }),
    openingTokensMax: () => shares.openingMax,
    gainTokensMin: 0,
    instructions,
  });
}

/** After a failed summary the turn continues without one and does not try again. */
async function attempt(runContext: RunContext, plan: CompactionPlan): Promise<void> {
  const { kind } = await compactBranch(runContext, plan);
  if (kind === "failed") runContext.branch.summaryFailed = true;
}

function regular(reason: CompactionPlan["reason"], shares: WindowShares): CompactionPlan {
  return {
    reason,
    shares,
    keep: () => ({ tokens: shares.keep, messages: anyNumber }),
    openingTokensMax: () => shares.openingMax,
    // Each compaction writes a whole summary anew, which must save more than a few tokens.
    gainTokensMin: Math.min(Math.floor(shares.summaryMax / 2), Math.floor(shares.keep / 8)),
    instructions: "",
  };
}

function sharesOf(runContext: RunContext): WindowShares {
  const [route] = runContext.step.routes;
  return windowShares(runContext.spec.agent.context, route?.context_window ?? 0, fixedTokens(runContext));
}

/** Estimated tokens of the part that all calls of the run share. */
function fixedTokens({ offered, spec: { systemPrompt, response } }: RunContext): number {
  const tools = toolListJson(offered)?.length ?? 0;
  return estimatedTokens(systemPrompt.length + (response?.instructions?.length ?? 0) + tools);
}
