import { workflowAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Store } from "../../storage/store/store.ts";
import { dueWorkflowRuns } from "../../storage/tables/workflow-runs.ts";

/** Runs that one look wakes. The rest follows with the next look. */
const runsMax = 500;

/** Wakes the actor of every run that is due: at a deadline, after a crash, or after a lost message. Returns their number. */
export async function lookAtWorkflows(store: Store, bus: Bus): Promise<number> {
  const due = await dueWorkflowRuns(store.system, runsMax);
  for (const { tenant_id, id } of due) bus.tell(workflowAddress(tenant_id, id), "look", {});
  return due.length;
}
