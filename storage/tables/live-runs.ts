import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";

/** The mark of a turn that is under way: written with its first events, deleted with its last. What is left was interrupted. */
export interface LiveRun {
  readonly thread_key: number;
  readonly suffix: string;
  readonly run_id: string;
  /** The process and worker that run it. */
  readonly owner: string;
  readonly started_at: number;
  /** The idempotency key to settle when the run turns out to be interrupted. */
  readonly idempotency_scope: string | null;
}

const insertLiveRun = tenantSql(
  "live_run_insert",
  `INSERT INTO live_runs (tenant_id, thread_key, suffix, run_id, owner, started_at, idempotency_scope)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?)`,
);
const deleteLiveRun = tenantSql(
  "live_run_delete",
  "DELETE FROM live_runs WHERE tenant_id = :tenant AND thread_key = ?",
);
const selectLiveRun = tenantSql(
  "live_run_by_thread",
  `SELECT thread_key, suffix, run_id, owner, started_at, idempotency_scope FROM live_runs
   WHERE tenant_id = :tenant AND thread_key = ?`,
);
const selectOfOthers = systemSql(
  "live_runs_of_others",
  `SELECT tenant_id, suffix, thread_key FROM live_runs WHERE thread_key > ? AND substr(owner, 1, ?) <> ?
   ORDER BY thread_key LIMIT ?`,
);

const selectOfOwner = systemSql(
  "live_runs_of_owner",
  "SELECT tenant_id, suffix, thread_key FROM live_runs WHERE thread_key > ? AND owner = ? ORDER BY thread_key LIMIT ?",
);

/** Who is gone and has left marks and claims behind: every process but the one whose owners begin like this, or one worker. */
export type Gone = { readonly processesBut: string } | { readonly worker: string };

/** Marks a thread as having a live run. Refuses with conflict when it has one. */
export function insertLiveRunOp(store: TenantStore, run: LiveRun): WriteOp {
  return store.op(insertLiveRun, [
    run.thread_key,
    run.suffix,
    run.run_id,
    run.owner,
    run.started_at,
    run.idempotency_scope,
  ]);
}

/** Takes the mark away. Refuses with conflict when there is none. */
export function deleteLiveRunOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteLiveRun, [threadKey], 1);
}

/** The live run of a thread, if it is marked as having one. */
export async function liveRunOf(store: TenantStore, threadKey: number): Promise<LiveRun | undefined> {
  const [row] = await store.read(selectLiveRun, threadKey);
  return row as unknown as LiveRun | undefined;
}

/** Threads with a live run that nobody runs any more, in pages by thread key. */
export async function abandonedRuns(
  store: Scope,
  gone: Gone,
  afterThreadKey: number,
  limit: number,
): Promise<{ tenant_id: string; suffix: string; thread_key: number }[]> {
  const rows =
    "worker" in gone
      ? await store.read(selectOfOwner, afterThreadKey, gone.worker, limit)
      : await store.read(selectOfOthers, afterThreadKey, gone.processesBut.length, gone.processesBut, limit);
  return rows as { tenant_id: string; suffix: string; thread_key: number }[];
}
