import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { leaveOps } from "./approvals.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";
import { type TaskAside, tasksAside } from "./task-waits.ts";
import { deleteWaitOp, type WaitRow, waitsOfRun } from "./waits.ts";

// Waits of lost runs. An answer to one would be accepted without effect, so they are closed as soon as the loss is
// known.

/** A wait of a run without a thread. */
export type ThreadlessWait = Pick<WaitRow, "wait_id" | "approval_id"> & { readonly tenant_id: string };

const fields = "tenant_id, wait_id, approval_id";
const selectOfExpired = systemSql(
  "waits_of_lapsed_hosts",
  `SELECT ${fields} FROM waits WHERE thread_key < 0 AND (owner IS NULL OR (${ownerIsGone("owner")}))
   ORDER BY wait_id LIMIT ?`,
);
const selectOfWorker = systemSql(
  "waits_of_worker",
  `SELECT ${fields} FROM waits WHERE thread_key < 0 AND owner = ? ORDER BY wait_id LIMIT ?`,
);
const endWait = tenantSql(
  "wait_abandon",
  "UPDATE waits SET state = 'expired' WHERE tenant_id = :tenant AND wait_id = ? AND state = 'open'",
);

/** Returns the oldest waits of runs without a thread whose process or worker is gone. */
export async function threadlessWaits(store: Scope, gone: Gone, limit: number): Promise<ThreadlessWait[]> {
  const rows =
    "worker" in gone
      ? await store.read(selectOfWorker, gone.worker, limit)
      : await store.read(selectOfExpired, ...othersThan(gone.hostsBut), limit);
  return rows as unknown as ThreadlessWait[];
}

/** Deletes such a wait. Its approval request is denied, unless another call waits for it. */
export function dropThreadlessOps(store: TenantStore, { wait_id, approval_id }: ThreadlessWait): WriteOp[] {
  const drop = deleteWaitOp(store, wait_id);
  return approval_id === null ? [drop] : leaveOps(store, approval_id, "aborted", drop);
}

/**
 * Returns operations that end the waits of a run's suspended tasks and of their own tasks. Use in the batch that ends
 * the run, because no run continues its tasks afterwards. The tasks resume as if they had expired, and then end.
 */
export async function endTasksOps(
  store: TenantStore,
  rootKey: number,
  tasks: readonly TaskAside[],
): Promise<WriteOp[]> {
  const ops: WriteOp[] = [];
  for (const { run_id } of tasks) {
    for (const { wait_id, approval_id, state } of await waitsOfRun(store, run_id)) {
      if (state !== "open") continue;
      const end = store.op(endWait, [wait_id]);
      ops.push(...(approval_id === null ? [end] : leaveOps(store, approval_id, "aborted", end)));
    }
    ops.push(...(await endTasksOps(store, rootKey, await tasksAside(store, rootKey, run_id))));
  }
  return ops;
}
