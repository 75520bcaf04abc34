import type { LogEvent } from "../../storage/tables/events.ts";
import type { LogEntry } from "./entry.ts";
import { type ContextMessage, contextMessage, type ShortForm } from "./message.ts";
import { shortMessage } from "./short-message.ts";

// A compaction is one event of the log: its content sums up what came before the event that its metadata names as the first one kept
// (decision 97). What is summed up stays in the log, for people; the model reads the summary in its place. Where it cuts through a
// turn, the metadata also names the message that has opened the turn, and the model reads that one as it is.

/** Characters of a turn's opening message that are kept as they were written. */
export const openingCharsMax = 16_000;

/** Why a conversation was compacted. */
export type CompactionReason = "threshold" | "overflow" | "after_turn" | "manual" | "summarizing";

/** What a compaction says in the log beside its summary. */
export interface CompactionFacts {
  readonly reason: CompactionReason;
  readonly first_kept_seq: number;
  /** The message that has opened the turn that is cut through; null when none is. */
  readonly opening_seq: number | null;
  /** How much of that message is kept; null for all of it. */
  readonly opening_form: ShortForm | null;
  /** Of what the model is shown, by the count that the compaction was decided by. */
  readonly tokens_before: number;
  readonly tokens_after: number;
}

/** The event of a compaction. */
export function compactionEntry(summary: string, facts: CompactionFacts): LogEntry {
  const { opening_seq, opening_form, ...rest } = facts;
  const opening = opening_seq === null ? {} : { opening_seq, ...(opening_form === null ? {} : { opening_form }) };
  const metadata = { type: "compaction", ...rest, ...opening };
  return { kind: "compaction", role: "system", content: summary, extra: { metadata } };
}

/** The sequence number of the first event that the model still reads as it is. */
export function firstKeptSeq({ seq, extra }: Pick<LogEvent, "seq" | "extra">): number {
  const named = extra?.metadata?.first_kept_seq;
  return typeof named === "number" && named >= 0 && named <= seq ? named : seq;
}

/** The sequence number of the message that is kept though it is before the first one kept; null for none. */
export function openingSeq(event: Pick<LogEvent, "seq" | "extra">): number | null {
  const named = event.extra?.metadata?.opening_seq;
  return typeof named === "number" && named >= 0 && named < firstKeptSeq(event) ? named : null;
}

const summaryMark = "[Summary of the conversation before this point.]\n";

/** What the model reads in the place of what was summed up. */
export function summaryMessage({ content, seq = -1 }: Pick<LogEvent, "content"> & { seq?: number }): ContextMessage {
  return contextMessage({ role: "user", content: summaryMark + content, seq });
}

/** Whether a message stands for what was summed up. */
export function isSummary(message: ContextMessage | undefined): boolean {
  return message?.role === "user" && message.content.startsWith(summaryMark);
}

/** A turn's opening message as a compaction keeps it. */
export function openingMessage(message: ContextMessage, event: Pick<LogEvent, "extra">): ContextMessage {
  const form = event.extra?.metadata?.opening_form as ShortForm | undefined;
  return shortMessage(message, form ?? { chars: openingCharsMax, images: true });
}
