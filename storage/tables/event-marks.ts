import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, oneOf, type RowIn, table, text } from "../store/table.ts";
import { eventKeys, eventsMax, type SeqRange } from "./events.ts";

// Labels and ratings that users give to events. An event has at most one of each; the last one replaces the others.
// They are not part of the log, and stay when a rewind abandons a branch.

const labelTable = table("labels", { event_key: integer, label: text });
const feedbackTable = table("feedback", {
  event_key: integer,
  rating: oneOf("up", "down"),
  note: text,
  at: integer,
});

/** A user's rating of a reply. */
export type Feedback = Omit<RowIn<typeof feedbackTable>, "event_key">;

/** A mark with the sequence number of its event. */
export type Marked<T> = T & { readonly seq: number };

/** Max marks of one read. */
export const marksMax = 100;

const setLabel = tenantSql(
  "label_set",
  `INSERT INTO labels (tenant_id, event_key, label) VALUES (:tenant, ?, ?)
   ON CONFLICT (event_key) DO UPDATE SET label = excluded.label WHERE labels.tenant_id = excluded.tenant_id`,
);
const setFeedback = tenantSql(
  "feedback_set",
  `INSERT INTO feedback (tenant_id, event_key, rating, note, at) VALUES (:tenant, ?, ?, ?, ?)
   ON CONFLICT (event_key) DO UPDATE SET rating = excluded.rating, note = excluded.note, at = excluded.at
     WHERE feedback.tenant_id = excluded.tenant_id`,
);
const deleteLabels = tenantSql(
  "labels_delete",
  "DELETE FROM labels WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?",
);
const deleteFeedback = tenantSql(
  "feedback_delete",
  "DELETE FROM feedback WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?",
);
const selectLabels = tenantSql(
  "labels_page",
  `SELECT ${labelTable.columns} FROM labels WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?
   ORDER BY event_key LIMIT ?`,
);
const selectFeedback = tenantSql(
  "feedback_page",
  `SELECT ${feedbackTable.columns} FROM feedback WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?
   ORDER BY event_key LIMIT ?`,
);

/** Sets the label of an event, or removes it if `label` is null. */
export function labelOp(store: TenantStore, threadKey: number, seq: number, label: string | null): WriteOp {
  const keys = eventKeys(threadKey, { from: seq, to: seq + 1 });
  return label === null ? store.op(deleteLabels, keys) : store.op(setLabel, [keys[0], label]);
}

/** Sets the rating of an event, or removes it if `feedback` is null. */
export function feedbackOp(store: TenantStore, threadKey: number, seq: number, feedback: Feedback | null): WriteOp {
  const keys = eventKeys(threadKey, { from: seq, to: seq + 1 });
  if (feedback === null) return store.op(deleteFeedback, keys);
  return store.op(setFeedback, [keys[0], feedback.rating, feedback.note, feedback.at]);
}

/** Deletes the marks of a thread's events in a range. */
export function deleteMarksOps(store: TenantStore, threadKey: number, range: SeqRange): WriteOp[] {
  const keys = eventKeys(threadKey, range);
  return [store.op(deleteLabels, keys), store.op(deleteFeedback, keys)];
}

/** Returns up to `marksMax` labels of events from `fromSeq` on, in order. */
export async function readLabels(
  store: TenantStore,
  threadKey: number,
  fromSeq: number,
): Promise<Marked<{ label: string }>[]> {
  const rows = await store.read(selectLabels, ...eventKeys(threadKey, { from: fromSeq, to: eventsMax }), marksMax);
  return rows.map((row) => {
    const { event_key, label } = labelTable.decode(row);
    return { seq: event_key - threadKey * eventsMax, label };
  });
}

/** Returns up to `marksMax` ratings of events from `fromSeq` on, in order. */
export async function readFeedback(
  store: TenantStore,
  threadKey: number,
  fromSeq: number,
): Promise<Marked<Feedback>[]> {
  const rows = await store.read(selectFeedback, ...eventKeys(threadKey, { from: fromSeq, to: eventsMax }), marksMax);
  return rows.map((row) => {
    const { event_key, ...feedback } = feedbackTable.decode(row);
    return { seq: event_key - threadKey * eventsMax, ...feedback };
  });
}
