import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { type Gone, hasHost, type Owner, othersThan, ownerIsGone } from "./hosts.ts";
import type { HeldRun } from "./runs.ts";

// Runs whose process is dead. Recovery closes them, or suspends them if they are durable.

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
