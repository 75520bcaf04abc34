import { isHiddenSuffix } from "../../bus/address.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { eventBytes, type LogEvent } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import type { KeptByThread } from "../log/messages.ts";

/** The position of one thread's log. */
export interface EventLogState {
  readonly store: TenantStore;
  /** `{tenant}:{suffix}`. */
  readonly threadId: string;
  readonly topic: string;
  /** The row after everything sent to the store is durable; null if the thread does not exist. */
  head: ThreadRow | null;
  /** Events below it are durable. */
  committedSeq: number;
  /** The durable leaf. */
  committedLeaf: number;
  /** Durable events that are not yet among the messages in memory; null if no messages are in memory. */
  recent: LogEvent[] | null;
}

/** Returns the row with changed settings. */
export function withKept(head: ThreadRow, kept: KeptByThread): ThreadRow {
  const meta = Object.entries({ ...head.meta, ...kept }).filter(([, value]) => value !== undefined);
  return { ...head, meta: Object.fromEntries(meta) };
}

/** Returns the entries as events, and the row after them. */
export function appendAll(
  head: ThreadRow,
  entries: readonly Pick<LogEvent, "kind" | "role" | "content" | "extra">[],
  ts: number,
): { head: ThreadRow; events: LogEvent[] } {
  let { next_seq, leaf_seq, bytes } = head;
  const events = entries.map((entry): LogEvent => {
    const event = { ...entry, content: entry.content.toWellFormed(), seq: next_seq, parent_seq: leaf_seq, ts };
    leaf_seq = next_seq++;
    bytes += eventBytes(event);
    return event;
  });
  if (events.length === 0) return { head, events };
  const updated_at = isHiddenSuffix(head.suffix) ? 0 : ts;
  return { head: { ...head, next_seq, leaf_seq, bytes, updated_at }, events };
}
