import { type Row, systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { type Gone, hasHost, type Owner, othersThan, ownerIsGone } from "./hosts.ts";
import { type HeldRun, type RunRow, runTable } from "./runs.ts";

// Runs whose process is dead. Recovery closes them, or suspends them if they are durable. It also restores audit rows that the process
// had in memory: for these it reads the runs that had news shortly before the death, ended or not.

/** A run whose process is dead. */
export interface InterruptedRun {
  readonly run_key: number;
  readonly run_id: string;
  readonly epoch: number;
  readonly idempotency_scope: string | null;
  /** True if it will be resumed, not closed. */
  readonly durable: boolean;
  readonly owner: Owner;
  /** True if the host of the owner has a row, so that it may still work on the run. */
  readonly owner_lives: boolean;
}

const suspendRun = tenantSql(
  "run_suspend",
  "UPDATE runs SET status = 'waiting' WHERE tenant_id = :tenant AND run_key = ? AND epoch = ? AND status = 'running'",
);
const selectInterrupted = tenantSql(
  "run_interrupted",
  `SELECT run_key, run_id, epoch, idempotency_scope, owner, ${hasHost("owner")} AS owner_lives,
       EXISTS (SELECT 1 FROM fibers f WHERE f.run_key = runs.run_key) AS durable FROM runs
     WHERE tenant_id = :tenant AND thread_key = ? AND status = 'running' AND ended_at IS NULL`,
);
const selectOwner = tenantSql(
  "run_living_owner",
  `SELECT r.owner FROM threads t JOIN runs r ON r.thread_key = t.thread_key
     WHERE t.tenant_id = :tenant AND t.suffix = ? AND r.tenant_id = :tenant AND r.run_id = ?
       AND r.status = 'running' AND r.ended_at IS NULL AND ${hasHost("r.owner")}`,
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

/** Ended runs that are searched for the newest one of a dead process. */
const recentRuns = 10_000;
const newsOf = (isGone: (column: string) => string): string =>
  `SELECT MAX(at) AS at FROM (
     SELECT MAX(t.updated_at) AS at FROM runs r JOIN threads t ON t.thread_key = r.thread_key
       WHERE r.ended_at IS NULL AND ${isGone("r.owner")}
     UNION ALL
     SELECT MAX(e.ended_at) AS at FROM
       (SELECT ended_at, owner FROM runs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ${recentRuns}) e
       WHERE ${isGone("e.owner")}) n`;
const ofRun = runTable.columns
  .split(", ")
  .map((name) => `r.${name}`)
  .join(", ");
const endedSince = (isGone: (column: string) => string): string =>
  `SELECT r.tenant_id, t.suffix, t.next_seq, ${ofRun} FROM runs r JOIN threads t ON t.thread_key = r.thread_key
   WHERE r.ended_at >= ? AND r.run_key > ? AND ${isGone("r.owner")} ORDER BY r.run_key LIMIT ?`;
const openSince = (isGone: (column: string) => string): string =>
  `SELECT r.tenant_id, t.suffix, t.next_seq, ${ofRun} FROM runs r JOIN threads t ON t.thread_key = r.thread_key
   WHERE r.ended_at IS NULL AND r.thread_key > ? AND (t.updated_at >= ? OR t.updated_at = 0) AND ${isGone("r.owner")}
   ORDER BY r.thread_key LIMIT ?`;
const isWorker = (column: string): string => `${column} = ?`;
const ofHosts = {
  news: systemSql("runs_news_of_lapsed_hosts", newsOf(ownerIsGone)),
  ended: systemSql("runs_ended_of_lapsed_hosts", endedSince(ownerIsGone)),
  open: systemSql("runs_open_of_lapsed_hosts", openSince(ownerIsGone)),
};
const ofWorker = {
  news: systemSql("runs_news_of_worker", newsOf(isWorker)),
  ended: systemSql("runs_ended_of_worker", endedSince(isWorker)),
  open: systemSql("runs_open_of_worker", openSince(isWorker)),
};

/** Suspends a run whose owner is dead. Refuses with conflict if it has another epoch, or does not run. */
export function suspendRunOp(store: TenantStore, { run_key, epoch }: HeldRun): WriteOp {
  return store.op(suspendRun, [run_key, epoch], 1);
}

/** Returns the open run of a thread. Its process is dead if the caller has just loaded the thread. */
export async function interruptedRun(store: TenantStore, threadKey: number): Promise<InterruptedRun | undefined> {
  const [row] = await store.read(selectInterrupted, threadKey);
  if (row === undefined) return undefined;
  const { durable, owner_lives, ...rest } = row;
  return { ...rest, durable: Boolean(durable), owner_lives: Boolean(owner_lives) } as unknown as InterruptedRun;
}

/** Returns the owner of a run at work whose host has a row; undefined for no such run. */
export async function livingOwner(store: TenantStore, suffix: string, runId: string): Promise<Owner | undefined> {
  const [row] = await store.read(selectOwner, suffix, runId);
  return row?.owner as Owner | undefined;
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

/** A run of a dead process, with its thread. */
export interface RunOfGone extends RunRow {
  readonly tenant_id: string;
  readonly suffix: string;
  /** The sequence number after the last event of the thread. */
  readonly next_seq: number;
}

/** Returns the time of the last news of runs whose owner is dead; undefined for none. */
export async function lastNewsOf(store: Scope, gone: Gone): Promise<number | undefined> {
  const { statements, params } = goneBy(gone);
  const [row] = await store.readLong(statements.news, ...params, ...params);
  return (row?.at as number | null | undefined) ?? undefined;
}

/** Yields, in pages, runs on threads whose owner is dead and which had news at or after a time. */
export async function* runsSince(store: Scope, gone: Gone, since: number, limit: number): AsyncGenerator<RunOfGone[]> {
  const { statements, params } = goneBy(gone);
  for (let after = 0; ; ) {
    const page = await store.readLong(statements.ended, since, after, ...params, limit);
    if (page.length > 0) yield page.map(toRunOfGone);
    if (page.length < limit) break;
    after = page.at(-1)?.run_key as number;
  }
  for (let after = 0; ; ) {
    const page = await store.readLong(statements.open, after, since, ...params, limit);
    if (page.length > 0) yield page.map(toRunOfGone);
    if (page.length < limit) return;
    after = page.at(-1)?.thread_key as number;
  }
}

function goneBy(gone: Gone): { readonly statements: typeof ofHosts; readonly params: readonly (string | number)[] } {
  return "worker" in gone
    ? { statements: ofWorker, params: [gone.worker] }
    : { statements: ofHosts, params: othersThan(gone.hostsBut) };
}

function toRunOfGone({ tenant_id, suffix, next_seq, ...row }: Row): RunOfGone {
  const own = { tenant_id: tenant_id as string, suffix: suffix as string, next_seq: next_seq as number };
  return { ...runTable.decode(row), ...own };
}
