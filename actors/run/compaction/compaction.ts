import { estimatedTokens } from "../../../governance/output-count.ts";
import { eventBytes, eventId, eventSeq, type LogEvent, pageRows } from "../../../storage/tables/events.ts";
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

// A run sums up the older part of its branch, so that what it shows the model is short again: the log gets one event that says where the
// rest begins, and the branch in memory begins with the summary from then on. A run without a thread does it in memory alone.

/** Tokens of an opening that are kept in any case: what a turn is about. */
const openingTokensMin = 32;

/** What is to be compacted, and how far. */
export interface CompactionPlan {
  readonly reason: CompactionReason;
  readonly shares: WindowShares;
  /** What is kept of so many tokens in so many messages. */
  readonly keep: (tokens: number) => KeepRule;
  /** At most so much is kept of the message that opens a turn which is cut through, where the branch has so many tokens. */
  readonly openingTokensMax: (tokens: number) => number;
  /** Less than this is not worth a call. */
  readonly gainTokensMin: number;
  /** What the user asks of the summary; "" for nothing. */
  readonly instructions: string;
}

/** What came of it. `nothing`: there is nothing that could be summed up. */
export type CompactionOutcome =
  | ({ readonly kind: "compacted" } & Compacted)
  | { readonly kind: "nothing"; readonly tokens: number }
  | { readonly kind: "failed"; readonly failure: ModelFailure | null };

/** A branch that was compacted. */
export interface Compacted {
  /** "" without a thread. */
  readonly event_id: string;
  readonly tokens_before: number;
  readonly tokens_after: number;
}

/** What of a branch is not summed up yet, and the summary of what is. */
interface Uncompacted extends Uncut {
  readonly summary: string;
  /** Tokens, by estimate, of what is older than the items and is too long to be summed up; 0 for nothing. */
  readonly olderTokens: number;
}

/** Compacts the branch of a run. When no summary can be had nothing has changed, and whoever asked goes on as it can. */
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
  const event_id = await write(runContext, made.text, {
    reason: plan.reason,
    first_kept_seq: kept[0]?.seq ?? 0,
    opening_seq: cut.opening?.item.seq ?? null,
    opening_form: formOf(opening),
    tokens_before,
    tokens_after,
  });
  runContext.branch.summed = { text: made.text, opening };
  const summary = summaryMessage({ content: made.text, seq: eventSeq(event_id.slice(0, 20), event_id) });
  replaceBranch(runContext, opening === null ? [summary] : [summary, opening], kept);
  return { kind: "compacted", event_id, tokens_before, tokens_after };
}

/**
 * The branch as the log has it: what others have added meanwhile is there too. Without a thread it is what is in memory. A log is read from
 * its end, in pages, as far back as a summary can reach; of what is older only the lengths are.
 */
async function uncompacted(runContext: RunContext, shares: WindowShares): Promise<Uncompacted> {
  const { spec: plan, eventLog, store } = runContext;
  if (plan.thread_key < 0) return inMemory(runContext);
  // All that the run has written is durable behind this.
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
    // One long message does not hide all that is before it.
    counted += Math.min(eventBytes(event), reach / 8);
    message.place = newestPlace - newestFirst.length;
    newestFirst.push(itemOf(message, event.seq));
  }
  const carried = compaction === null ? null : await openingOf(store, plan.thread_key, compaction);
  if (carried !== null) newestFirst.push(itemOf(carried.message, carried.seq, true));
  const items = newestFirst.reverse();
  const asked = items.findIndex(({ seq, message }) => seq >= plan.fromSeq && message.role === "user");
  // A continuation is of the turn before.
  const turnFirst = asked >= 0 ? asked : items.findLastIndex(({ message }) => message.role === "user");
  const olderTokens = estimatedTokens(older?.bytes ?? 0);
  return { summary: compaction?.content ?? "", items, olderTokens, turnFirst: Math.max(0, turnFirst) };
}

/** An opening with no more than so many tokens: first its images go, then its text is cut. */
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

/** The same with the tokens of each message as the model counts them, where that is known. */
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
    return { summary: "", items: messages.map((message) => itemOf(message)), olderTokens: 0, turnFirst: turnStart };
  const items = messages.slice(1).map((message) => itemOf(message, -1, message === summed.opening));
  return { summary: summed.text, items, olderTokens: 0, turnFirst: turnStart - 1 };
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

/** The event of the compaction, in one batch with what the summary has cost. */
async function write(runContext: RunContext, summary: string, facts: CompactionFacts): Promise<string> {
  const { eventLog, spec: plan } = runContext;
  if (plan.thread_key < 0) return "";
  const durableSeq = await eventLog.append([compactionEntry(summary, facts)], runContext.billing.ops());
  return eventId(eventLog.leafIdAfter(0).slice(0, 20), durableSeq - 1);
}

/** The branch in memory is what a later turn will read from the log. */
function replaceBranch(runContext: RunContext, head: readonly ContextMessage[], kept: readonly BranchItem[]): void {
  const { messages: branch, turnStart } = runContext.branch;
  const turnLength = branch.length - turnStart;
  const after = inCallOrder([...head, ...kept.map(({ message }) => message)], 0);
  branch.length = 0;
  for (const message of after) branch.push(message);
  const start = after.length - turnLength;
  // Behind the summary stands the opening, where the turn itself was cut.
  runContext.branch.chosen = null;
  runContext.branch.turnStart = start >= head.length ? start : 1;
}
