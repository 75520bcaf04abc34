import type { RepeatedTask } from "../../bus/task-declaration.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, table } from "../store/table.ts";
import { dropArtifactsOfThreadOps } from "./artifacts.ts";
import { deleteDurablesOp } from "./durable-rows.ts";
import { deleteMarksOps } from "./event-marks.ts";
import { deleteEventsOp, type SeqRange } from "./events.ts";
import { dropFilesOfThreadOps } from "./files.ts";
import { deleteKeysOfRunsOp } from "./idempotency.ts";
import { deleteModelCallsOp } from "./model-calls.ts";
import { deleteRunsOp } from "./runs.ts";
import { deleteWordsOp } from "./search.ts";

// Logs without a thread row: a fork during its copy, or a thread during its deletion. Both work in pages, so as not to
// delay others. Interrupted ones are found here and deleted.

const unownedTable = table("unowned_logs", {
  thread_key: integer,
  /** One more than the highest possible sequence number. */
  events: integer,
  /** One more than the highest possible run number. */
  runs: integer,
  /** Time of the last progress, on the store's clock. */
  touched_at: integer,
});

/** A log without a thread row. */
export type UnownedLog = Omit<RowIn<typeof unownedTable>, "touched_at">;

/** Time without progress after which a log counts as abandoned. */
const abandonedMs = 60_000;
/** Max events and runs that one batch deletes. */
const batchEvents = 500;
/** Logs per query. */
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

/** Records that the log has no thread row from now on. */
export function disownOp(store: TenantStore, { thread_key, events, runs }: UnownedLog): WriteOp {
  return store.op(insertUnowned, [thread_key, events, runs]);
}

/** Records progress. Refuses with conflict if the log was declared abandoned. */
export function touchOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(touchUnowned, [threadKey], 1);
}

/**
 * Removes the record, because the log has a thread row or is deleted. Refuses with conflict if it was declared
 * abandoned.
 */
export function ownOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteUnowned, [threadKey], 1);
}

/** True if the log can be deleted in one batch. */
export function isShort({ events, runs }: Pick<UnownedLog, "events" | "runs">): boolean {
  return events <= batchEvents && runs <= batchEvents;
}

/** Returns operations that delete a short log and everything that refers to it. */
export function eraseOps(store: TenantStore, { thread_key, events, runs }: UnownedLog): WriteOp[] {
  return [...pageOps(store, thread_key, { from: 0, to: events }), ...runsOps(store, thread_key, { from: 0, to: runs })];
}

/** Deletes a log without a thread row, in pages. */
export async function eraseUnowned(store: TenantStore, { thread_key, events, runs }: UnownedLog): Promise<void> {
  const touch = touchOp(store, thread_key);
  for (let from = 0; from < events; from += batchEvents)
    await store.write([touch, ...pageOps(store, thread_key, { from, to: Math.min(events, from + batchEvents) })]);
  for (let from = 0; from < runs; from += batchEvents)
    await store.write([touch, ...runsOps(store, thread_key, { from, to: Math.min(runs, from + batchEvents) })]);
  // An interrupted fork may have shared files and artifacts, or own those of a thread that was deleted since.
  const dropped = [...dropFilesOfThreadOps(store, thread_key), ...dropArtifactsOfThreadOps(store, thread_key)];
  await store.write([...dropped, ownOp(store, thread_key)]);
}

/** Deletes the logs of interrupted forks and deletions. Returns their number. */
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

/** Index entries first, because on SQLite their deletion reads the log. */
function pageOps(store: TenantStore, threadKey: number, range: SeqRange): WriteOp[] {
  return [
    deleteWordsOp(store, threadKey, range),
    deleteEventsOp(store, threadKey, range),
    ...deleteMarksOps(store, threadKey, range),
  ];
}

/** Keys and context records first, because their deletion reads the runs. */
function runsOps(store: TenantStore, threadKey: number, range: SeqRange): WriteOp[] {
  return [
    deleteKeysOfRunsOp(store, threadKey, range),
    deleteModelCallsOp(store, threadKey, range),
    deleteDurablesOp(store, threadKey, range),
    deleteRunsOp(store, threadKey, range),
  ];
}

const eraseMs = 30_000;

/** Finishes abandoned forks and deletions. */
export const unownedLogsTask: RepeatedTask<{ readonly store: Store }> = {
  name: "unowned_logs",
  of: "scheduler",
  async run({ store }) {
    await eraseAbandoned(store);
    return eraseMs;
  },
};
