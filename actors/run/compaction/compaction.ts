import { estimatedTokens } from "../../../governance/output-count.ts";
import { eventBytes, eventId, eventSeq, type LogEvent, pageRows } from "../../../storage/tables/events.ts";
import { activeSkills, namedSkills } from "../../log/active-skills.ts";
import { branchEvents, inCallOrder, newestPlace, openingOf } from "../../log/branch.ts";
import {
  type CompactionFacts,
  type CompactionReason,
  compactionEntry,
  firstKeptSeq,
  openingCharsMax,
  summaryMessage,
} from "../../log/compaction.ts";
import { type ContextMessage, messageOf, type ShortForm } from "../../log/message.ts";
import { shortMessage } from "../../log/short-message.ts";
import { loadedBytesMax, type OlderPart, olderPart } from "../../log/thread-size.ts";
import { transcriptEntries } from "../../log/transcript.ts";
import type { ModelFailure } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { countMessages } from "../model/token-counts.ts";
import {
  type BranchItem,
  type Cut,
  type KeepRule,
  type KeptOpening,
  planCut,
  tokensCut,
  type Uncut,
} from "../prompt/compaction-cut.ts";
import { imageTokens, messageTokens } from "../prompt/token-estimate.ts";
import type { WindowShares } from "../prompt/window.ts";
import { reachOf, summarize } from "./summary-call.ts";

// Summarizes the older part of a branch, so that prompts become short again. The log gets one event that marks the start of the kept part.
// The branch in memory then begins with the summary. A run without a thread changes the branch in memory only.

/** Min tokens of the opening message that are kept, because it states the subject of the turn. */
const openingTokensMin = 32;

/** The reason and the bounds of a compaction. */
export interface CompactionPlan {
  readonly reason: CompactionReason;
  readonly shares: WindowShares;
  /** The rule for the kept part, given the tokens of the branch. */
  readonly keep: (tokens: number) => KeepRule;
  /** Max tokens of the opening of a split turn, given the tokens of the branch. */
  readonly openingTokensMax: (tokens: number) => number;
  /** A compaction that saves fewer tokens is skipped. */
  readonly gainTokensMin: number;
  /** The user's instructions for the summary; "" for none. */
  readonly instructions: string;
}

/** The outcome of a compaction. `nothing`: the branch has nothing to summarize. */
export type CompactionOutcome =
  | ({ readonly kind: "compacted" } & Compacted)
  | { readonly kind: "nothing"; readonly tokens: number }
  | { readonly kind: "failed"; readonly failure: ModelFailure | null };

/** The event and the token counts of a compaction. */
export interface Compacted {
  /** "" without a thread. */
  readonly event_id: string;
  readonly tokens_before: number;
  readonly tokens_after: number;
}

/** The messages after the newest summary, and that summary. */
interface Uncompacted extends Uncut {
  readonly summary: string;
  /** The message with the summary, with the skills that were active before it. */
  readonly summaryAsRead: ContextMessage;
  /** Estimated tokens of messages older than the items, which are too long to summarize; 0 for none. */
  readonly olderTokens: number;
}

/** Compacts the branch of a run. A failed summary changes nothing, and the caller decides how to continue. */
export async function compactBranch(runContext: RunContext, plan: CompactionPlan): Promise<CompactionOutcome> {
  const uncut = await weighed(runContext, await uncompacted(runContext, plan.shares));
  const { summary: before, items, olderTokens } = uncut;
  const tokens = sumOf(items);
  const tokens_before = olderTokens + tokens + (before === "" ? 0 : messageTokens(summaryMessage({ content: before })));
  const openingMax = plan.openingTokensMax(tokens);
  const cut = planCut(uncut, plan.keep(tokens), (opening) => shortOpening(opening, openingMax));
  if (cut === null || tokensCut(items, cut) + olderTokens < plan.gainTokensMin)
    return { kind: "nothing", tokens: tokens_before };

  runContext.stream.progress({ phase: "compaction", reason: plan.reason });
  const { shares, instructions } = plan;
  const made = await summarize(runContext, {
    before,
    entries: cutMessages(items, cut).flatMap(transcriptEntries),
    isCut: olderTokens > 0,
    instructions,
    summaryTokensMax: shares.summaryMax,
    pieceTokensMax: shares.pieceMax,
  });
  if (made.kind === "failed") {
    runContext.deps.log.warn(
      { run_id: runContext.spec.run_id, cause: made.reason },
      "a thread could not be compacted: the summary failed",
    );
    return { kind: "failed", failure: made.failure };
  }
  const opening = cut.opening?.message ?? null;
  const kept = items.slice(cut.at);
  const headTokens = messageTokens(summaryMessage({ content: made.text })) + (cut.opening?.tokens ?? 0);
  const tokens_after = sumOf(kept) + headTokens;
  const skills = namedSkills(activeSkills([uncut.summaryAsRead, ...cutMessages(items, cut)]));
  const event_id = await write(runContext, made.text, {
    reason: plan.reason,
    first_kept_seq: kept[0]?.seq ?? 0,
    opening_seq: cut.opening?.item.seq ?? null,
    opening_form: formOf(opening),
    tokens_before,
    tokens_after,
    ...(skills.length > 0 && { skills }),
  });
  runContext.branch.summed = { text: made.text, opening };
  const summary = summaryMessage({
    content: made.text,
    seq: eventSeq(event_id.slice(0, 20), event_id),
    extra: { metadata: { skills } },
  });
  replaceBranch(runContext, opening === null ? [summary] : [summary, opening], kept);
  return { kind: "compacted", event_id, tokens_before, tokens_after };
}

/**
 * Reads the branch from the log, with messages that others have added since; without a thread, from memory. The log is read backwards in
 * pages, as far as a summary can reach. For older messages only their length is read.
 */
async function uncompacted(runContext: RunContext, shares: WindowShares): Promise<Uncompacted> {
  const { spec: plan, eventLog, store } = runContext;
  if (plan.thread_key < 0) return inMemory(runContext);
  // After this, all events of the run are durable.
  await eventLog.append([], runContext.billing.ops());
  const leafId = eventLog.leafIdAfter(0);
  const reach = reachOf(shares);
  const newestFirst: BranchItem[] = [];
  let compaction: LogEvent | null = null;
  let older: OlderPart | null = null;
  let bytes = 0;
  let counted = 0;
  for await (const event of branchEvents(store, plan.thread_key, eventSeq(leafId.slice(0, 20), leafId), pageRows)) {
    if (compaction !== null && event.seq < firstKeptSeq(compaction)) break;
    if (event.kind === "compaction") compaction ??= event;
    const message = messageOf(event);
    // A call group that a page has begun is read to its beginning.
    const isFar = counted > reach || bytes > loadedBytesMax;
    if (isFar && message !== null && message.role !== "tool" && message.tool_calls === null) {
      older = await olderPart(store, plan.thread_key, event.seq, compaction);
      compaction = older.compaction;
      break;
    }
    if (message === null) continue;
    bytes += eventBytes(event);
    // A long message counts at most an eighth of the reach, so that it does not exclude all older messages.
    counted += Math.min(eventBytes(event), reach / 8);
    message.place = newestPlace - newestFirst.length;
    newestFirst.push(itemOf(message, event.seq));
  }
  const carried = compaction === null ? null : await openingOf(store, plan.thread_key, compaction);
  if (carried !== null) newestFirst.push(itemOf(carried.message, carried.seq, true));
  const items = newestFirst.reverse();
  const asked = items.findIndex(({ seq, message }) => seq >= plan.fromSeq && message.role === "user");
  // A continuation belongs to the previous turn.
  const turnFirst = asked >= 0 ? asked : items.findLastIndex(({ message }) => message.role === "user");
  const olderTokens = estimatedTokens(older?.bytes ?? 0);
  const summaryAsRead = summaryMessage(compaction ?? { content: "" });
  return { summary: compaction?.content ?? "", summaryAsRead, items, olderTokens, turnFirst: Math.max(0, turnFirst) };
}

/** Shortens an opening to `tokensMax`: drops its images first, then cuts its text. */
function shortOpening(item: BranchItem, tokensMax: number): KeptOpening {
  const { message, tokens } = item;
  const imagesTokens = (message.attachments?.length ?? 0) * imageTokens;
  const images = imagesTokens <= tokensMax / 2;
  const left = Math.max(openingTokensMin, tokensMax - (images ? imagesTokens : 0));
  const textTokens = Math.max(1, tokens - imagesTokens);
  const share = Math.min(1, left / textTokens);
  const { length } = message.content;
  const chars = share === 1 ? openingCharsMax : Math.min(openingCharsMax, Math.floor(length * share));
  const kept = shortMessage(message, { chars: Math.min(chars, formOf(message)?.chars ?? chars), images });
  if (kept === message) return { item, message, tokens };
  const keptTokens = Math.ceil((textTokens * Math.min(chars, length)) / Math.max(1, length));
  return { item, message: kept, tokens: keptTokens + (kept.attachments === null ? 0 : imagesTokens) };
}

function formOf(message: ContextMessage | null): ShortForm | null {
  const { short = null } = message ?? {};
  return short === "cleared" ? null : short;
}

/** Replaces estimates by the tokenizer's counts if it is known. */
async function weighed(runContext: RunContext, uncut: Uncompacted): Promise<Uncompacted> {
  const { items } = uncut;
  const tokens = await countMessages(
    runContext,
    items.map(({ message }) => message),
  );
  return { ...uncut, items: items.map((item, at) => ({ ...item, tokens: tokens[at] ?? item.tokens })) };
}

function inMemory({ branch: { messages, turnStart, summed } }: RunContext): Uncompacted {
  if (summed === null)
    return {
      summary: "",
      summaryAsRead: summaryMessage({ content: "" }),
      items: messages.map((message) => itemOf(message)),
      olderTokens: 0,
      turnFirst: turnStart,
    };
  const items = messages.slice(1).map((message) => itemOf(message, -1, message === summed.opening));
  const [summaryAsRead = summaryMessage({ content: summed.text })] = messages;
  return { summary: summed.text, summaryAsRead, items, olderTokens: 0, turnFirst: turnStart - 1 };
}

function itemOf(message: ContextMessage, seq = -1, isCarried = false): BranchItem {
  return { message, seq, isCarried, tokens: messageTokens(message) };
}

function cutMessages(items: readonly BranchItem[], cut: Cut): ContextMessage[] {
  return items.slice(0, cut.at).flatMap(({ message, isCarried }) => (isCarried ? [] : [message]));
}

function sumOf(items: readonly BranchItem[]): number {
  return items.reduce((sum, { tokens }) => sum + tokens, 0);
}

/** Appends the compaction event in one batch with the usage of the summary. */
async function write(runContext: RunContext, summary: string, facts: CompactionFacts): Promise<string> {
  const { eventLog, spec: plan } = runContext;
  if (plan.thread_key < 0) return "";
  const durableSeq = await eventLog.append(
    [compactionEntry(summary, facts, runContext.run.taint.sources)],
    runContext.billing.ops(),
  );
  return eventId(eventLog.leafIdAfter(0).slice(0, 20), durableSeq - 1);
}

/** Rebuilds the branch in memory as a later turn would load it from the log. */
function replaceBranch(runContext: RunContext, head: readonly ContextMessage[], kept: readonly BranchItem[]): void {
  const { messages: branch, turnStart } = runContext.branch;
  const turnLength = branch.length - turnStart;
  const after = inCallOrder([...head, ...kept.map(({ message }) => message)], 0);
  branch.length = 0;
  for (const message of after) branch.push(message);
  const start = after.length - turnLength;
  // If the running turn was split, its opening is at index 1, after the summary.
  runContext.branch.chosen = null;
  runContext.branch.turnStart = start >= head.length ? start : 1;
}
