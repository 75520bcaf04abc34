import { isHiddenSuffix } from "../../bus/address.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { eventBytes, type LogEvent } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import type { KeptByThread } from "../log/messages.ts";

/** Where the log of one thread stands. */
export interface EventLogState {
  readonly store: TenantStore;
  /** `{tenant}:{suffix}`. */
  readonly threadId: string;
  readonly topic: string;
  /** As the log will be when everything that was sent to the store is durable; null while the thread does not exist. */
  head: ThreadRow | null;
  /** Events below it are durable. */
  committedSeq: number;
  /** The leaf of what is durable. */
  committedLeaf: number;
  /** Durable events that the messages in memory do not show yet; null when none are in memory. */
  recent: LogEvent[] | null;
}

/** The head with what the conversation is to keep. */
export function withKept(head: ThreadRow, kept: KeptByThread): ThreadRow {
  const meta = Object.entries({ ...head.meta, ...kept }).filter(([, value]) => value !== undefined);
  return { ...head, meta: Object.fromEntries(meta) };
}

/** The entries as they will stand in the log, and the head moved on behind them. */
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
