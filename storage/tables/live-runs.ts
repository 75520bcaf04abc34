import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";

// Marks of turns that were under way in the release before this one. Nothing writes them any more; those that its last process has
// left are closed like the runs of any other host that is gone (storage/tables/runs.ts finds them).

const deleteLiveRun = tenantSql(
  "live_run_delete",
  "DELETE FROM live_runs WHERE tenant_id = :tenant AND thread_key = ?",
);

/** Takes the mark away. Refuses with conflict when there is none. */
export function deleteLiveRunOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteLiveRun, [threadKey], 1);
}
