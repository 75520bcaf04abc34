import type { LogEvent } from "../../storage/events.ts";
import type { TenantStore } from "../../storage/store.ts";
import type { ThreadRow } from "../../storage/threads.ts";

/** Where the log of one thread stands. */
export interface ThreadLog {
  readonly store: TenantStore;
  /** `{tenant}:{suffix}`. */
  readonly threadId: string;
  readonly topic: string;
  /** As the log will be when everything that was sent to the store is durable; null while the thread does not exist. */
  head: ThreadRow | null;
  /** Events below it are durable. */
  committedSeq: number;
}

/** The event as it will stand in the log, and the head moved on behind it. */
export function appendToHead(
  head: ThreadRow,
  entry: Pick<LogEvent, "kind" | "role" | "content" | "extra">,
  ts: number,
): { head: ThreadRow; event: LogEvent } {
  const event: LogEvent = {
    ...entry,
    content: entry.content.toWellFormed(),
    seq: head.next_seq,
    parent_seq: head.leaf_seq,
    ts,
  };
  return { head: { ...head, next_seq: event.seq + 1, leaf_seq: event.seq, updated_at: ts }, event };
}
