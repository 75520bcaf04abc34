import type { LogEvent } from "../../storage/tables/events.ts";
import { carrySkills } from "./active-skills.ts";
import type { LogEntry } from "./entry.ts";
import { type ContextMessage, contextMessage, type ShortForm, taintOf } from "./message.ts";
import { shortMessage } from "./short-message.ts";

// A compaction is one event. Its content summarizes the events before the first kept one, which its metadata names (decision 97:
// like a rewind, it removes no events). Summarized events stay in the log for people; the model reads the summary instead. If a
// compaction splits a turn, the metadata also names the turn's opening message, which the model still reads.

/** Max characters kept of a turn's opening message. */
export const openingCharsMax = 16_000;

/** Why a thread was compacted. */
export type CompactionReason = "threshold" | "overflow" | "after_turn" | "manual" | "summarizing";

/** The metadata of a compaction. */
export interface CompactionFacts {
  readonly reason: CompactionReason;
  readonly first_kept_seq: number;
  /** The opening message of the turn that the compaction splits; null for none. */
  readonly opening_seq: number | null;
  /** How the opening message is shortened; null if it is kept complete. */
  readonly opening_form: ShortForm | null;
  /** Tokens of the model's context, by the count on which the compaction was decided. */
  readonly tokens_before: number;
  readonly tokens_after: number;
  /** The active skills of the summarized part; absent for none. */
  readonly skills?: readonly string[];
}

/** Returns the event of a compaction. `taint` are the untrusted sources of the summarized messages. */
export function compactionEntry(summary: string, facts: CompactionFacts, taint: readonly string[]): LogEntry {
  const { opening_seq, opening_form, ...rest } = facts;
  const opening = opening_seq === null ? {} : { opening_seq, ...(opening_form === null ? {} : { opening_form }) };
  const metadata = { type: "compaction", ...rest, ...opening, ...(taint.length > 0 && { taint }) };
  return { kind: "compaction", role: "system", content: summary, extra: { metadata } };
}

/** Returns the sequence number of the first event that the model still reads. */
export function firstKeptSeq({ seq, extra }: Pick<LogEvent, "seq" | "extra">): number {
  const named = extra?.metadata?.first_kept_seq;
  return typeof named === "number" && named >= 0 && named <= seq ? named : seq;
}

/** Returns the sequence number of the kept opening message before the first kept event; null for none. */
export function openingSeq(event: Pick<LogEvent, "seq" | "extra">): number | null {
  const named = event.extra?.metadata?.opening_seq;
  return typeof named === "number" && named >= 0 && named < firstKeptSeq(event) ? named : null;
}

const summaryMark = "[Summary of the conversation before this point.]\n";

/** Returns the message with the summary. */
export function summaryMessage({
  content,
  seq = -1,
  extra = null,
}: Pick<LogEvent, "content"> & Partial<Pick<LogEvent, "seq" | "extra">>): ContextMessage {
  const message = contextMessage({ role: "user", content: summaryMark + content, seq, taint: taintOf(extra) });
  carrySkills(message, extra?.metadata?.skills);
  return message;
}

/** True if the message is a summary. */
export function isSummary(message: ContextMessage | undefined): boolean {
  return message?.role === "user" && message.content.startsWith(summaryMark);
}

/** Returns a turn's opening message as the compaction keeps it. */
export function openingMessage(message: ContextMessage, event: Pick<LogEvent, "extra">): ContextMessage {
  const form = event.extra?.metadata?.opening_form as ShortForm | undefined;
  return shortMessage(message, form ?? { chars: openingCharsMax, images: true });
}
