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

// Every run is a row, from its beginning until its thread is deleted or the row is swept. A row is found by one integer, the thread's
// key times 2^24 plus the run's number in the thread, which is the thread's epoch at its beginning: the runs of a thread lie together,
// the newest last. A run without a thread is written once, at its end, under a negative key of the store's own.
//
// Who runs it has its epoch: the claim, which each resumption raises. What is written under an older one is refused.

/** Takings of one thread, so many runs among them at most: keys of two threads are so far apart. */
export const runsMax = 2 ** 24;

/** What rows are written in now. */
const format = 1;

/** What was asked, by whom, and what it may use: enough to begin again at the step that the log says. */
export interface RunAsked {
  readonly surface: EntryPoint;
  readonly request_id: string;
  readonly principal: Omit<Principal, "tenant_id">;
  /** The ids of the model's route and of those to fall back on. */
  readonly routes: readonly string[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** What its conversation had picked when it began; absent when nothing. */
  readonly output_style?: string;
  /** The permission mode that it began in; absent for default. */
  readonly permission_mode?: PermissionMode;
  /** Of a task only: who has handed it out. */
  readonly parent?: ParentRun;
  /** Of a run that a trigger has set going. */
  readonly trigger?: TriggerDelivery;
  /** Of POST /v1/responses only. */
  readonly response?: ResponseAsked;
  /** Of the OpenAI entry point; absent where the request had none. */
  readonly options?: TurnOptions;
  /** Of a durable run only: see storage/tables/durable-rows.ts. */
  readonly durable?: DurableAsked;
  /** Of a run whose client has sent a failed turn again: the first event of that turn as it was asked for the first time. */
  readonly again_of?: number;
  /** Of a run that goes on with one that is dead. */
  readonly requeued?: RequeuedRun;
}

/** With what a run begins that goes on with another one, which is dead. */
export interface RequeuedRun {
  readonly run_id: string;
  /** The first of those that have gone on with each other: the keys of their calls bear its name. */
  readonly first_run_id: string;
  /** The first event of that one. */
  readonly first_seq: number;
  /** What they have used of their limits; null for nothing. */
  readonly spent: RunSpent | null;
}

/** What a durable run was accepted with. */
export interface DurableAsked {
  /** How long it may wait behind its last step, in milliseconds. */
  readonly ttl_ms: number;
  /** The endpoints that are told of its end; absent for none. */
  readonly webhooks?: readonly string[];
  /** The digest under which its manifests are kept. */
  readonly body?: string;
}

/** What a run has used of its limits. */
export interface RunSpent {
  readonly tool_calls: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
  /** The permission mode that it was put aside in; absent for the one that it began in. */
  readonly permission_mode?: PermissionMode;
  /** Tasks that it has handed out, or that were handed out below it; absent for none. */
  readonly hops?: number;
  /** Of a durable run: the step that it is at, and milliseconds that it was at work. */
  readonly step?: number;
  readonly active_ms?: number;
  /** Requests for approval that its tasks have waited for; absent for none. */
  readonly approvals?: readonly string[];
  /** It has begun a call of a tool that may change something; absent where it has not. */
  readonly acted?: true;
  /** What its model calls reported, as its answer will say; null when none did. */
  readonly usage: TurnUsage | null;
}

/** What came of a run. */
export interface RunResult {
  readonly stop_reason: StopReason | null;
  /** Why it has failed, as a code; null when it has not. */
  readonly error: string | null;
  /** The failure in words that a client may read; absent where it has none. */
  readonly failure?: string;
  /** Which of a model's failures it was; absent for every other. */
  readonly failure_code?: FailureCode;
  /** Null when no provider reported any. */
  readonly usage: TurnUsage | null;
  /** Of a task only: what who has handed it out is told. */
  readonly task?: TaskOutcome;
}

/** The table itself, for the statements that join it with another. */
export const runTable = table("runs", {
  run_key: integer,
  run_id: text,
  thread_key: nullable(integer),
  status: oneOf("accepted", "running", "waiting", "completed", "failed", "expired", "dead"),
  /** The host and the worker that run it, or ran it last. */
  owner: text,
  epoch: integer,
  manifest: text,
  manifest_digest: text,
  /** The tenant store's number of it; null for manifests of the operator. */
  manifest_version: nullable(integer),
  parent_run_id: nullable(text),
  /** How many agents the request has come through before. */
  hops: integer,
  asked: json<RunAsked>(),
  /** The idempotency key to settle when the run turns out to be interrupted. */
  idempotency_scope: nullable(text),
  started_at: integer,
  ended_at: nullable(integer),
  /** Events of other runs are never between its first and its last; null without a thread. */
  first_seq: nullable(integer),
  /** One less than the first when it has written none. */
  last_seq: nullable(integer),
  /** As of the last time it was put aside. */
  spent: nullable(json<RunSpent>()),
  result: nullable(json<RunResult>()),
  /** How the JSON is to be read. */
  format: integer,
});

/** A run as it is stored. */
export type RunRow = RowIn<typeof runTable>;

/** A run as it begins. */
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

/** Where a run begins: its thread, the epoch under which that was taken for it, and the sequence number of its first event. */
export interface RunPlace {
  readonly thread_key: number;
  readonly epoch: number;
  readonly first_seq: number;
}

/** A run as its claim knows it. */
export type HeldRun = Pick<RunRow, "run_key" | "epoch">;

/** How a run ends, and what came of it. */
export interface RunEnding extends RunResult {
  readonly status: "completed" | "failed" | "expired" | "dead";
}

/** The end of a run, and when and where in the log it was. */
export interface RunEnd extends RunEnding {
  readonly ended_at: number;
  readonly last_seq: number | null;
}

/** What a run that is no more has left on its thread. Without a key it is one of the release before, in `live_runs`. */
export interface InterruptedRun {
  readonly run_key: number | null;
  readonly run_id: string;
  readonly epoch: number;
  readonly idempotency_scope: string | null;
  /** It is taken up again, and not closed. */
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
     WHERE tenant_id = :tenant AND thread_key = ? AND status = 'running' AND ended_at IS NULL
   UNION ALL SELECT NULL, run_id, 0, idempotency_scope, NULL FROM live_runs WHERE tenant_id = :tenant AND thread_key = ?`,
);
const selectOfExpired = systemSql(
  "runs_of_lapsed_hosts",
  `SELECT r.tenant_id, t.suffix, r.thread_key FROM runs r JOIN threads t ON t.thread_key = r.thread_key
     WHERE r.status = 'running' AND r.ended_at IS NULL AND r.thread_key > ? AND ${ownerIsGone("r.owner")}
   UNION ALL SELECT tenant_id, suffix, thread_key FROM live_runs WHERE thread_key > ?
   ORDER BY thread_key LIMIT ?`,
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

/** The key of the run that has this number in its thread. */
export function runKey(threadKey: number, number: number): number {
  return threadKey * runsMax + number;
}

/** The number that a run has in its thread. */
export function runNumber(key: number): number {
  return key % runsMax;
}

/** A run of a tenant by its key. */
export const runByKey = selectOne(runTable, ["run_key"]);

/** The row of a run that begins on a thread, or is accepted to begin later. */
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

/** Adds the row of a run. Refuses with conflict when its thread has one that is not over. */
export const beginRunOp: (store: TenantStore, run: RunRow) => WriteOp = insertRun;

/** A run begins on a thread. Refuses with conflict when one runs there already. */
export function insertRunOp(store: TenantStore, run: NewRun, place: RunPlace): WriteOp {
  return insertRun(store, runBegun(run, place));
}

/** A run that nobody runs any more is put aside. Refuses with conflict when it is another's, or does not run. */
export function suspendRunOp(store: TenantStore, { run_key, epoch }: HeldRun): WriteOp {
  return store.op(suspendRun, [run_key, epoch], 1);
}

/** What a run has used by now. Beside an operation that is guarded by the claim of the run. */
export function spentOp(store: TenantStore, runKey: number, spent: RunSpent): WriteOp {
  return store.op(keepSpent, [JSON.stringify(spent), runKey], 1);
}

/** A run without a thread, which is written when it is over. */
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
  // The key, the first column, is the store's to give.
  return store.op(insertThreadless, runTable.encode(row).slice(1));
}

/** A run is put aside until something comes that it waits for. Refuses with conflict when it is another's, or does not run. */
export function suspendLiveRunOp(store: TenantStore, { run_key, epoch }: HeldRun, spent: RunSpent): WriteOp {
  return store.op(suspendLiveRun, [JSON.stringify(spent), run_key, epoch], 1);
}

/** A run that waits is taken up, under a higher epoch. Refuses with conflict when somebody else has done it, or it does not wait. */
export function resumeRunOp(
  store: TenantStore,
  { run_key, epoch }: HeldRun,
  by: Pick<RunRow, "owner" | "epoch">,
): WriteOp {
  return store.op(resumeRun, [by.owner, by.epoch, run_key, epoch], 1);
}

/** A run is over, whether it ran or waited. Refuses with conflict when it is another's, or is over already. */
export function endRunOp(store: TenantStore, { run_key, epoch }: HeldRun, end: RunEnd): WriteOp {
  const { status, ended_at, last_seq, ...result } = end;
  return store.op(endRun, [status, ended_at, last_seq, JSON.stringify(result), run_key, epoch], 1);
}

/** Deletes a run that is over; its words stay in the log. */
export function deleteRunOp(store: TenantStore, runKey: number): WriteOp {
  return store.op(deleteRun, [runKey]);
}

/** Whether a thread has a run on record. */
export async function hasRuns(store: TenantStore, threadKey: number): Promise<boolean> {
  const rows = await store.read(selectAnyRun, runKey(threadKey, 0), runKey(threadKey + 1, 0));
  return rows.length > 0;
}

/** The keys that runs of a thread with numbers in a range lie between: the first, and one past the last. */
export function runKeys(threadKey: number, { from, to }: SeqRange): [first: number, end: number] {
  return [threadKey * runsMax + from, threadKey * runsMax + Math.min(to, runsMax)];
}

/** Deletes the runs of a thread with numbers in a range. */
export function deleteRunsOp(store: TenantStore, threadKey: number, range: SeqRange = wholeLog): WriteOp {
  return store.op(deleteRuns, runKeys(threadKey, range));
}

/** The run that is marked as running on a thread, of which whoever loads the thread knows that it does not. */
export async function interruptedRun(store: TenantStore, threadKey: number): Promise<InterruptedRun | undefined> {
  const [row] = await store.read(selectInterrupted, threadKey, threadKey);
  return row && ({ ...row, durable: Boolean(row.durable) } as unknown as InterruptedRun);
}

/** The run of a thread that is put aside, if it has one. */
export async function waitingRun(store: TenantStore, threadKey: number): Promise<RunRow | undefined> {
  const [row] = await store.read(selectWaiting, threadKey);
  return row && runTable.decode(row);
}

/** The last run that has begun on a thread. */
export async function newestRun(store: TenantStore, threadKey: number): Promise<RunRow | undefined> {
  const [row] = await store.read(selectNewest, ...runKeys(threadKey, wholeLog));
  return row && runTable.decode(row);
}

/** A run of a thread by its id. */
export async function runOfThread(store: TenantStore, threadKey: number, runId: string): Promise<RunRow | undefined> {
  const [row] = await store.read(selectOfThread, ...runKeys(threadKey, wholeLog), runId);
  return row && runTable.decode(row);
}

/** Threads with a run that nobody runs any more, in pages by thread key. */
export async function abandonedRuns(
  store: Scope,
  gone: Gone,
  afterThreadKey: number,
  limit: number,
): Promise<{ tenant_id: string; suffix: string; thread_key: number }[]> {
  const rows =
    "worker" in gone
      ? await store.read(selectOfWorker, afterThreadKey, gone.worker, limit)
      : await store.read(selectOfExpired, afterThreadKey, ...othersThan(gone.hostsBut), afterThreadKey, limit);
  return rows as { tenant_id: string; suffix: string; thread_key: number }[];
}

/** Deletes at most `limit` runs that ended at or before a time, with what is on record of their model calls; answers how many. */
export async function deleteEndedRuns(store: Scope, until: number, limit: number): Promise<number> {
  // The calls first: the runs say which there are.
  const [rows] = await store.write([
    store.op(deleteCallsOfEnded, [until, limit]),
    store.op(deleteEnded, [until, limit]),
  ]);
  return rows?.length ?? 0;
}
