import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";

// Markers of live turns from the previous release. This release does not write them. Those of its last process are
// closed like the runs of any dead host (storage/tables/runs.ts finds them).

const deleteLiveRun = tenantSql(
  "live_run_delete",
  "DELETE FROM live_runs WHERE tenant_id = :tenant AND thread_key = ?",
);

/** Deletes the marker. Refuses with conflict if there is none. */
export function deleteLiveRunOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteLiveRun, [threadKey], 1);
}
