import type { LogEvent } from "../../storage/tables/events.ts";
import { type ContextMessage, contextMessage } from "./message.ts";

// A compaction is one event of the log: its content sums up what came before the event that its metadata names as the first one kept
// (decision 97). What is summed up stays in the log, for people; the model reads the summary in its place.

/** The sequence number of the first event that the model still reads as it is. */
export function firstKeptSeq({ seq, extra }: Pick<LogEvent, "seq" | "extra">): number {
  const named = extra?.metadata?.first_kept_seq;
  return typeof named === "number" && named >= 0 && named <= seq ? named : seq;
}

/** What the model reads in the place of what was summed up. */
export function summaryMessage({ content }: Pick<LogEvent, "content">): ContextMessage {
  return contextMessage({ role: "user", content: `[Summary of the conversation before this point.]\n${content}` });
}
