import type { FailureCode } from "../../bus/frames/output.ts";
import type { StopReason, TurnUsage } from "../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { EntryPoint, ParentRun, ResponseAsked, TaskOutcome, TriggerDelivery } from "../../bus/protocol/run.ts";
import type { TurnOptions } from "../../bus/protocol/turn-options.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";
import { type SeqRange, wholeLog } from "./events.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";

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

/** The request, its principal and its limits: enough to restart at the step that the log shows. */
export interface RunAsked {
  readonly surface: EntryPoint;
  readonly request_id: string;
  readonly principal: Omit<Principal, "tenant_id">;
  /** Ids of the model's route and of its fallbacks. */
  readonly routes: readonly string[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** Output style of the thread at the start of the run; absent if none was chosen. */
  readonly output_style?: string;
  /** Permission mode at the start of the run; absent for the default. */
  readonly permission_mode?: PermissionMode;
  /** The parent of a task's run; absent for others. */
  readonly parent?: ParentRun;
  /** The trigger that started the run; absent for others. */
  readonly trigger?: TriggerDelivery;
  /** Set for POST /v1/responses only. */
  readonly response?: ResponseAsked;
  /** Options of a request to the OpenAI routes; absent if it had none. */
  readonly options?: TurnOptions;
  /** Set for durable runs only; see storage/tables/durable-rows.ts. */
  readonly durable?: DurableAsked;
  /** First event of the original turn, if the client has repeated a failed turn. */
  readonly again_of?: number;
  /** Set for a run that continues a dead one. */
  readonly requeued?: RequeuedRun;
}

/** Data of the dead run that a new run continues. */
export interface RequeuedRun {
  readonly run_id: string;
  /** The first run in a chain of requeued ones; its id is part of the keys of their calls. */
  readonly first_run_id: string;
  /** The first event of that run. */
  readonly first_seq: number;
  /** Usage of their limits so far; null if none. */
  readonly spent: RunSpent | null;
}

/** Options of a durable run. */
export interface DurableAsked {
  /** Max milliseconds that it may wait after its last step. */
  readonly ttl_ms: number;
  /** Endpoints that receive a webhook about its end; absent if none. */
  readonly webhooks?: readonly string[];
  /** Digest of its stored manifests. */
  readonly body?: string;
}

/** The amounts that a run has used of its limits. */
export interface RunSpent {
  readonly tool_calls: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
  /** Permission mode at its last suspension; absent if equal to the one at its start. */
  readonly permission_mode?: PermissionMode;
  /** Tasks that it or its tasks have started; absent if none. */
  readonly hops?: number;
  /** For a durable run: its current step, and its active milliseconds. */
  readonly step?: number;
  readonly active_ms?: number;
  /** Approval requests that its tasks have waited for; absent if none. */
  readonly approvals?: readonly string[];
  /** Set if it has started a tool call that may change something. */
  readonly acted?: true;
  /** Usage reported by its model calls, for the reply; null if none was reported. */
  readonly usage: TurnUsage | null;
}

/** Outcome of a run. */
export interface RunResult {
  readonly stop_reason: StopReason | null;
  /** Error code of a failure; null on success. */
  readonly error: string | null;
  /** Text of the failure for the client; absent if there is none. */
  readonly failure?: string;
  /** Kind of a model failure; absent for other failures. */
  readonly failure_code?: FailureCode;
  /** Null if no provider reported usage. */
  readonly usage: TurnUsage | null;
  /** Result of a task for its parent; absent for other runs. */
  readonly task?: TaskOutcome;
}

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
>;

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

/** A run whose process is dead. */
export interface InterruptedRun {
  readonly run_key: number;
  readonly run_id: string;
  readonly epoch: number;
  readonly idempotency_scope: string | null;
  /** True if it will be resumed, not closed. */
  readonly durable: boolean;
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
const suspendRun = tenantSql(
  "run_suspend",
  "UPDATE runs SET status = 'waiting' WHERE tenant_id = :tenant AND run_key = ? AND epoch = ? AND status = 'running'",
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
const selectInterrupted = tenantSql(
  "run_interrupted",
  `SELECT run_key, run_id, epoch, idempotency_scope,
       EXISTS (SELECT 1 FROM fibers f WHERE f.run_key = runs.run_key) AS durable FROM runs
     WHERE tenant_id = :tenant AND thread_key = ? AND status = 'running' AND ended_at IS NULL`,
);
const selectOfExpired = systemSql(
  "runs_of_lapsed_hosts",
  `SELECT r.tenant_id, t.suffix, r.thread_key FROM runs r JOIN threads t ON t.thread_key = r.thread_key
     WHERE r.status = 'running' AND r.ended_at IS NULL AND r.thread_key > ? AND ${ownerIsGone("r.owner")}
   ORDER BY r.thread_key LIMIT ?`,
);
const selectOfWorker = systemSql(
  "runs_of_worker",
  `SELECT r.tenant_id, t.suffix, r.thread_key FROM runs r JOIN threads t ON t.thread_key = r.thread_key
   WHERE r.status = 'running' AND r.ended_at IS NULL AND r.thread_key > ? AND r.owner = ? ORDER BY r.thread_key LIMIT ?`,
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
  };
}

/** Inserts the row of a run. Refuses with conflict if its thread has an open run. */
export const beginRunOp: (store: TenantStore, run: RunRow) => WriteOp = insertRun;

/** Inserts the row of a run that starts on a thread. Refuses with conflict if the thread has an open run. */
export function insertRunOp(store: TenantStore, run: NewRun, place: RunPlace): WriteOp {
  return insertRun(store, runBegun(run, place));
}

/** Suspends a run whose owner is dead. Refuses with conflict if it has another epoch, or does not run. */
export function suspendRunOp(store: TenantStore, { run_key, epoch }: HeldRun): WriteOp {
  return store.op(suspendRun, [run_key, epoch], 1);
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

/** Returns the open run of a thread. Its process is dead if the caller has just loaded the thread. */
export async function interruptedRun(store: TenantStore, threadKey: number): Promise<InterruptedRun | undefined> {
  const [row] = await store.read(selectInterrupted, threadKey);
  return row && ({ ...row, durable: Boolean(row.durable) } as unknown as InterruptedRun);
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

/** Returns threads with a run whose owner is dead, in pages by thread key. */
export async function abandonedRuns(
  store: Scope,
  gone: Gone,
  afterThreadKey: number,
  limit: number,
): Promise<{ tenant_id: string; suffix: string; thread_key: number }[]> {
  const rows =
    "worker" in gone
      ? await store.read(selectOfWorker, afterThreadKey, gone.worker, limit)
      : await store.read(selectOfExpired, afterThreadKey, ...othersThan(gone.hostsBut), limit);
  return rows as { tenant_id: string; suffix: string; thread_key: number }[];
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
