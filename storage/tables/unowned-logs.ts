import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, table } from "../store/table.ts";
import { deleteDurablesOp } from "./durable-rows.ts";
import { deleteMarksOps } from "./event-marks.ts";
import { deleteEventsOp, type SeqRange } from "./events.ts";
import { dropFilesOfThreadOps } from "./files.ts";
import { deleteKeysOfRunsOp } from "./idempotency.ts";
import { deleteModelCallsOp } from "./model-calls.ts";
import { deleteRunsOp } from "./runs.ts";
import { deleteWordsOp } from "./search.ts";

// A log that belongs to no conversation: of a fork that is being copied, or of a conversation that is being deleted. Both go in pages,
// so that nobody waits long behind one, and what they have not come to the end of is found here and deleted.

const unownedTable = table("unowned_logs", {
  thread_key: integer,
  /** One past the highest sequence number that it can have, and the same of the numbers of its runs. */
  events: integer,
  runs: integer,
  /** By the store's clock, when somebody last worked on it. */
  touched_at: integer,
});

/** A log that belongs to no conversation. */
export type UnownedLog = Omit<RowIn<typeof unownedTable>, "touched_at">;

/** Whoever has done nothing to a log for so long is gone. */
const abandonedMs = 60_000;
/** Events and runs that one batch deletes. */
const batchEvents = 500;
/** Logs that are looked for at once. */
const batchLogs = 16;

const insertUnowned = tenantSql(
  "unowned_log_insert",
  "INSERT INTO unowned_logs (tenant_id, thread_key, events, runs, touched_at) VALUES (:tenant, ?, ?, ?, :now)",
);
const touchUnowned = tenantSql(
  "unowned_log_touch",
  "UPDATE unowned_logs SET touched_at = :now WHERE tenant_id = :tenant AND thread_key = ?",
);
const deleteUnowned = tenantSql(
  "unowned_log_delete",
  "DELETE FROM unowned_logs WHERE tenant_id = :tenant AND thread_key = ?",
);
const selectAbandoned = systemSql(
  "unowned_logs_abandoned",
  `SELECT tenant_id, thread_key, events, runs FROM unowned_logs WHERE touched_at <= :now - ${abandonedMs} LIMIT ?`,
);

/** The log belongs to nobody from now on. */
export function disownOp(store: TenantStore, { thread_key, events, runs }: UnownedLog): WriteOp {
  return store.op(insertUnowned, [thread_key, events, runs]);
}

/** Somebody still works on it. Refuses with conflict when it was taken for abandoned. */
export function touchOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(touchUnowned, [threadKey], 1);
}

/** The log belongs to somebody from now on, or is gone. Refuses with conflict when it was taken for abandoned. */
export function ownOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteUnowned, [threadKey], 1);
}

/** Whether the log of a thread can be deleted in one batch. */
export function isShort({ events, runs }: Pick<UnownedLog, "events" | "runs">): boolean {
  return events <= batchEvents && runs <= batchEvents;
}

/** What deletes a log that is short, with everything that refers to it. */
export function eraseOps(store: TenantStore, { thread_key, events, runs }: UnownedLog): WriteOp[] {
  return [...pageOps(store, thread_key, { from: 0, to: events }), ...runsOps(store, thread_key, { from: 0, to: runs })];
}

/** Deletes a log that belongs to nobody, in pages. */
export async function eraseUnowned(store: TenantStore, { thread_key, events, runs }: UnownedLog): Promise<void> {
  const touch = touchOp(store, thread_key);
  for (let from = 0; from < events; from += batchEvents)
    await store.write([touch, ...pageOps(store, thread_key, { from, to: Math.min(events, from + batchEvents) })]);
  for (let from = 0; from < runs; from += batchEvents)
    await store.write([touch, ...runsOps(store, thread_key, { from, to: Math.min(runs, from + batchEvents) })]);
  // A copy that came to no end has shared them, or has got those of a conversation that was deleted meanwhile.
  await store.write([...dropFilesOfThreadOps(store, thread_key), ownOp(store, thread_key)]);
}

/** Deletes what forks and deletions have left that came to no end. Answers how many logs that were. */
export async function eraseAbandoned(store: Store): Promise<number> {
  let erased = 0;
  for (;;) {
    const rows = await store.system.read(selectAbandoned, batchLogs);
    for (const row of rows) {
      const { thread_key, events, runs } = unownedTable.decode({ ...row, touched_at: 0 });
      await eraseUnowned(store.tenant(row.tenant_id as string), { thread_key, events, runs });
      erased++;
    }
    if (rows.length < batchLogs) return erased;
  }
}

/** The words first: on SQLite the log says which there are. */
function pageOps(store: TenantStore, threadKey: number, range: SeqRange): WriteOp[] {
  return [
    deleteWordsOp(store, threadKey, range),
    deleteEventsOp(store, threadKey, range),
    ...deleteMarksOps(store, threadKey, range),
  ];
}

/** The keys and the model calls first: the runs say which there are. */
function runsOps(store: TenantStore, threadKey: number, range: SeqRange): WriteOp[] {
  return [
    deleteKeysOfRunsOp(store, threadKey, range),
    deleteModelCallsOp(store, threadKey, range),
    deleteDurablesOp(store, threadKey, range),
    deleteRunsOp(store, threadKey, range),
  ];
}
