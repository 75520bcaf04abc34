import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";
import { type SeqRange, wholeLog } from "./events.ts";
import type { RunAsked, RunResult, RunSpent } from "./run-columns.ts";

// Every run is a row, from its start until its thread is deleted or a sweep removes the row. The key is one integer,
// the thread's key times 2^24 plus the run's number. The number is the thread's epoch at the start of the run. The runs
// of a thread are therefore adjacent, the newest last. A run without a thread is written once, at its end, with a
// negative key from the store.
//
// The owner of a run knows its epoch, which each resumption raises. Writes with an older epoch are refused.

/** Max epochs of one thread, and so max runs. It is the distance between the keys of two threads. */
export const runsMax = 2 ** 24;

/** Current format of new rows. */
const format = 1;

/** Exported for statements that join it with another table. */
export const runTable = table("runs", {
  run_key: integer,
  run_id: text,
  thread_key: nullable(integer),
  status: oneOf("accepted", "running", "waiting", "completed", "failed", "expired", "dead"),
  /** The worker that runs it, or ran it last. */
  owner: text,
  epoch: integer,
  manifest: text,
  manifest_digest: text,
  /** Version in the tenant's store; null for manifests of the operator. */
  manifest_version: nullable(integer),
  parent_run_id: nullable(text),
  /** Number of agents that the request has passed through before. */
  hops: integer,
  asked: json<RunAsked>(),
  /** The idempotency key to settle if the run is interrupted. */
  idempotency_scope: nullable(text),
  started_at: integer,
  ended_at: nullable(integer),
  /** No event of another run lies between its first and its last event; null without a thread. */
  first_seq: nullable(integer),
  /** `first_seq` - 1 if it has written no event. */
  last_seq: nullable(integer),
  /** As of its last suspension. */
  spent: nullable(json<RunSpent>()),
  result: nullable(json<RunResult>()),
  /** Format version of the JSON columns. */
  format: integer,
  /** The A2A context of a task of that protocol; null for every other run. */
  a2a_context: nullable(text),
  /** The caller of a task of that protocol, as `principalId` names it; null for every other run. */
  a2a_owner: nullable(text),
});

/** A stored run. */
export type RunRow = RowIn<typeof runTable>;

/** A new run. */
export type NewRun = Pick<
  RunRow,
  | "run_id"
  | "owner"
  | "manifest"
  | "manifest_digest"
  | "manifest_version"
  | "parent_run_id"
  | "hops"
  | "asked"
  | "idempotency_scope"
  | "started_at"
> & { readonly a2a_context?: string | null; readonly a2a_owner?: string | null };

/** The start of a run: its thread, its epoch, and the sequence number of its first event. */
export interface RunPlace {
  readonly thread_key: number;
  readonly epoch: number;
  readonly first_seq: number;
}

/** Key and epoch of a run, which guard the writes of its owner. */
export type HeldRun = Pick<RunRow, "run_key" | "epoch">;

/** Final status and outcome of a run. */
export interface RunEnding extends RunResult {
  readonly status: "completed" | "failed" | "expired" | "dead";
}

/** End of a run, with its time and its position in the log. */
export interface RunEnd extends RunEnding {
  readonly ended_at: number;
  readonly last_seq: number | null;
}

const insertRun = insertInto(runTable);
const { columns } = runTable;
const belowZero = {
  sqlite: "COALESCE((SELECT run_key FROM runs WHERE run_key < 0 ORDER BY run_key LIMIT 1), 0) - 1",
  postgres: "-nextval('threadless_runs')",
};
const values = columns.replace(/\w+/g, "?");
const insertThreadless = tenantSql("run_insert_threadless", {
  sqlite: `INSERT INTO runs (tenant_id, ${columns}) VALUES (:tenant, ${values.replace("?", belowZero.sqlite)})`,
  postgres: `INSERT INTO runs (tenant_id, ${columns}) VALUES (:tenant, ${values.replace("?", belowZero.postgres)})`,
});
const suspendLiveRun = tenantSql(
  "run_park",
  `UPDATE runs SET status = 'waiting', spent = ?
   WHERE tenant_id = :tenant AND run_key = ? AND epoch = ? AND status = 'running'`,
);
const keepSpent = tenantSql("run_spent", "UPDATE runs SET spent = ? WHERE tenant_id = :tenant AND run_key = ?");
const selectWaiting = tenantSql(
  "run_waiting",
  `SELECT ${columns} FROM runs
   WHERE tenant_id = :tenant AND thread_key = ? AND status IN ('accepted', 'waiting') AND ended_at IS NULL`,
);
const selectNewest = tenantSql(
  "run_newest",
  `SELECT ${columns} FROM runs WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ? ORDER BY run_key DESC LIMIT 1`,
);
const selectOfThread = tenantSql(
  "run_of_thread",
  `SELECT ${columns} FROM runs WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ? AND run_id = ?`,
);
const selectA2aTask = tenantSql(
  "run_a2a_task",
  `SELECT ${columns} FROM runs WHERE tenant_id = :tenant AND run_id = ? AND a2a_context IS NOT NULL`,
);
const resumeRun = tenantSql(
  "run_resume",
  `UPDATE runs SET status = 'running', owner = ?, epoch = ?
   WHERE tenant_id = :tenant AND run_key = ? AND epoch = ? AND status IN ('accepted', 'waiting')`,
);
const endRun = tenantSql(
  "run_end",
  `UPDATE runs SET status = ?, ended_at = ?, last_seq = ?, result = ?
   WHERE tenant_id = :tenant AND run_key = ? AND epoch = ? AND ended_at IS NULL`,
);
const deleteRuns = tenantSql(
  "runs_delete",
  "DELETE FROM runs WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ?",
);
const deleteRun = tenantSql(
  "run_delete",
  "DELETE FROM runs WHERE tenant_id = :tenant AND run_key = ? AND ended_at IS NOT NULL",
);
const selectAnyRun = tenantSql(
  "run_any",
  "SELECT run_key FROM runs WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ? LIMIT 1",
);
const deleteCallsOfEnded = systemSql(
  "model_calls_delete_ended",
  `DELETE FROM model_calls WHERE (tenant_id, run_id) IN
     (SELECT tenant_id, run_id FROM runs WHERE ended_at <= ? ORDER BY ended_at, run_key LIMIT ?)`,
);
const deleteEnded = systemSql(
  "runs_delete_ended",
  `DELETE FROM runs WHERE run_key IN (SELECT run_key FROM runs WHERE ended_at <= ? ORDER BY ended_at, run_key LIMIT ?)
   RETURNING run_key`,
);

/** Returns the key of the run with this number in its thread. */
export function runKey(threadKey: number, number: number): number {
  return threadKey * runsMax + number;
}

/** Returns the number of a run in its thread. */
export function runNumber(key: number): number {
  return key % runsMax;
}

/** Returns a run of a tenant by its key. */
export const runByKey = selectOne(runTable, ["run_key"]);

/** Builds the row of a run that starts on a thread, or is accepted to start later. */
export function runBegun(
  run: NewRun,
  { thread_key, epoch, first_seq }: RunPlace,
  status: "accepted" | "running" = "running",
): RunRow {
  return {
    ...run,
    run_key: runKey(thread_key, epoch),
    thread_key,
    status,
    epoch,
    ended_at: null,
    first_seq,
    last_seq: null,
    spent: null,
    result: null,
    format,
    a2a_context: run.a2a_context ?? null,
    a2a_owner: run.a2a_owner ?? null,
  };
}

/** Inserts the row of a run. Refuses with conflict if its thread has an open run. */
export const beginRunOp: (store: TenantStore, run: RunRow) => WriteOp = insertRun;

/** Inserts the row of a run that starts on a thread. Refuses with conflict if the thread has an open run. */
export function insertRunOp(store: TenantStore, run: NewRun, place: RunPlace): WriteOp {
  return insertRun(store, runBegun(run, place));
}

/** Stores the usage of a run. Use in one batch with an operation that checks the run's epoch. */
export function spentOp(store: TenantStore, runKey: number, spent: RunSpent): WriteOp {
  return store.op(keepSpent, [JSON.stringify(spent), runKey], 1);
}

/** Inserts a run without a thread, after its end. */
export function insertEndedRunOp(store: TenantStore, run: NewRun, end: RunEnd): WriteOp {
  const { status, ended_at, stop_reason, error, usage } = end;
  const row: RunRow = {
    ...run,
    run_key: 0,
    thread_key: null,
    status,
    epoch: 0,
    ended_at,
    first_seq: null,
    last_seq: null,
    spent: null,
    result: { stop_reason, error, usage },
    format,
    a2a_context: null,
    a2a_owner: null,
  };
  // The key, which is the first column, is assigned by the statement.
  return store.op(insertThreadless, runTable.encode(row).slice(1));
}

/** Suspends a run until an answer arrives. Refuses with conflict if it has another epoch, or does not run. */
export function suspendLiveRunOp(store: TenantStore, { run_key, epoch }: HeldRun, spent: RunSpent): WriteOp {
  return store.op(suspendLiveRun, [JSON.stringify(spent), run_key, epoch], 1);
}

/**
 * Resumes a suspended run with a higher epoch. Refuses with conflict if it was resumed already, or is not suspended.
 */
export function resumeRunOp(
  store: TenantStore,
  { run_key, epoch }: HeldRun,
  by: Pick<RunRow, "owner" | "epoch">,
): WriteOp {
  return store.op(resumeRun, [by.owner, by.epoch, run_key, epoch], 1);
}

/** Ends a running or suspended run. Refuses with conflict if it has another epoch, or has ended. */
export function endRunOp(store: TenantStore, { run_key, epoch }: HeldRun, end: RunEnd): WriteOp {
  const { status, ended_at, last_seq, ...result } = end;
  return store.op(endRun, [status, ended_at, last_seq, JSON.stringify(result), run_key, epoch], 1);
}

/** Deletes an ended run; its events stay in the log. */
export function deleteRunOp(store: TenantStore, runKey: number): WriteOp {
  return store.op(deleteRun, [runKey]);
}

/** True if the thread has at least one run row. */
export async function hasRuns(store: TenantStore, threadKey: number): Promise<boolean> {
  const rows = await store.read(selectAnyRun, runKey(threadKey, 0), runKey(threadKey + 1, 0));
  return rows.length > 0;
}

/** Returns the key range of a thread's runs with numbers in a range: the first key, and the key after the last. */
export function runKeys(threadKey: number, { from, to }: SeqRange): [first: number, end: number] {
  return [threadKey * runsMax + from, threadKey * runsMax + Math.min(to, runsMax)];
}

/** Deletes the runs of a thread with numbers in a range. */
export function deleteRunsOp(store: TenantStore, threadKey: number, range: SeqRange = wholeLog): WriteOp {
  return store.op(deleteRuns, runKeys(threadKey, range));
}

/** Returns the suspended run of a thread, if any. */
export async function waitingRun(store: TenantStore, threadKey: number): Promise<RunRow | undefined> {
  const [row] = await store.read(selectWaiting, threadKey);
  return row && runTable.decode(row);
}

/** Returns the newest run of a thread. */
export async function newestRun(store: TenantStore, threadKey: number): Promise<RunRow | undefined> {
  const [row] = await store.read(selectNewest, ...runKeys(threadKey, wholeLog));
  return row && runTable.decode(row);
}

/** Returns a run of a thread by its id. */
export async function runOfThread(store: TenantStore, threadKey: number, runId: string): Promise<RunRow | undefined> {
  const [row] = await store.read(selectOfThread, ...runKeys(threadKey, wholeLog), runId);
  return row && runTable.decode(row);
}

/** Returns the run of an A2A task. */
export async function a2aTaskRun(store: TenantStore, runId: string): Promise<RunRow | undefined> {
  const [row] = await store.read(selectA2aTask, runId);
  return row && runTable.decode(row);
}

/** Deletes up to `limit` runs that ended at or before `until`, with their context records. Returns their number. */
export async function deleteEndedRuns(store: Scope, until: number, limit: number): Promise<number> {
  // Context records first, because their deletion reads the runs.
  const [rows] = await store.write([
    store.op(deleteCallsOfEnded, [until, limit]),
    store.op(deleteEnded, [until, limit]),
  ]);
  return rows?.length ?? 0;
}
