import { estimatedTokens } from "../../../governance/output-count.ts";
import { isSummary } from "../../log/compaction.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { countPrompt, runEncoding } from "../model/token-counts.ts";
import { messagesTokens } from "../prompt/token-estimate.ts";
import { type WindowShares, windowShares } from "../prompt/window.ts";
import { toolListJson } from "../spec/prompt-prefix.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { type CompactionOutcome, type CompactionPlan, compactBranch } from "./compaction.ts";
import { cutLastResults } from "./cut-results.ts";

// When a branch is compacted, and how much of it is kept (decisions 97, 98).

/** Of an estimated token. */
const tokenCharacters = 4;
const anyNumber = Number.POSITIVE_INFINITY;

/** Compacts before a model call where the strategy asks for it. Null, without a promise, where nothing is due. */
export function compactionDue(runContext: RunContext): Promise<void> | null {
  const { session, context } = runContext.spec.agent;
  if (runContext.branch.summaryFailed) return null;
  if (session.kind === "summarizing") return summaryDue(runContext, session.messages);
  if (session.kind !== "compacting" || !context.compaction_enabled) return null;
  const shares = sharesOf(runContext);
  const shown = runContext.branch.shownBy(runContext.spec.agent);
  const tokens = fixedTokens(runContext.spec) + messagesTokens(shown);
  if (runEncoding(runContext) === null)
    return tokens <= shares.promptMax ? null : attempt(runContext, regular("threshold", shares));
  // Few texts have more tokens than characters: what is short is not counted.
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
 * `summarizing:N` sums up what is older than N messages when half of N, and four at least, have gathered there: a long conversation does
 * not ask for a summary in each turn, and nothing is missing meanwhile.
 */
function summaryDue(runContext: RunContext, messages: number): Promise<void> | null {
  const { messages: branch } = runContext.branch;
  const count = branch.length - (isSummary(branch[0]) ? 1 : 0);
  if (count < messages + Math.max(4, Math.ceil(messages / 2))) return null;
  const plan = regular("summarizing", sharesOf(runContext));
  return attempt(runContext, { ...plan, keep: () => ({ tokens: anyNumber, messages }), gainTokensMin: 0 });
}

/** Compacts when the turn's reply is there, where the manifest says so. */
export async function compactAfterTurn(runContext: RunContext): Promise<void> {
  if (!runContext.branch.summaryFailed) await attempt(runContext, regular("after_turn", sharesOf(runContext)));
}

/**
 * Shortens what a provider has refused as too long: how long it may be is known to the provider alone. The older part is summed up; where
 * that is not enough, the newest results are cut. False when nothing could be done. The transcript of a sub-agent is not summed
 * up.
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

/** Compacts what was refused, to half at most. False when it could not be done. */
async function compactAtOverflow(runContext: RunContext, shares: WindowShares): Promise<boolean> {
  const { kind } = await compactBranch(runContext, {
    ...regular("overflow", shares),
    keep: (tokens) => ({ tokens: Math.min(shares.keep, Math.floor(tokens / 2)), messages: anyNumber }),
    openingTokensMax: (tokens) => Math.min(shares.openingMax, Math.floor(tokens / 2)),
    gainTokensMin: 0,
  });
  return kind === "compacted";
}

/** Compacts because somebody has asked for it: to half at most, however short the conversation is. */
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

/** A turn goes on without a summary that it could not get, and does not try again. */
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
    // A summary is written anew each time: a few more words are not worth that.
    gainTokensMin: Math.min(Math.floor(shares.summaryMax / 2), Math.floor(shares.keep / 8)),
    instructions: "",
  };
}

function sharesOf({ spec, step: { routes } }: RunContext): WindowShares {
  const [route] = routes;
  return windowShares(spec.agent.context, route?.context_window ?? 0, fixedTokens(spec));
}

/** Of what every call of the run is shown beside its messages. */
function fixedTokens({ agent, systemPrompt, response }: RunSpec): number {
  const tools = toolListJson(agent)?.length ?? 0;
  return estimatedTokens(systemPrompt.length + (response?.instructions?.length ?? 0) + tools);
}
