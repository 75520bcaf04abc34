import { workflowAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { dueWorkflowRuns } from "../../storage/tables/workflow-runs.ts";

/** Runs that one look wakes. The rest follows with the next look. */
const runsMax = 500;

/** Wakes the actor of every run that is due: at a deadline, after a crash, or after a lost message. Returns their number. */
export async function lookAtWorkflows(store: Store, bus: Bus): Promise<number> {
  const due = await dueWorkflowRuns(store.system, runsMax);
  for (const { tenant_id, id, wake_at } of due) bus.tell(workflowAddress(tenant_id, id), "look", { wake_at });
  return due.length;
}

/** Max delay of a deadline of a workflow, and of the next step after a crash or a lost message. */
const lookMs = 1_000;

/** Wakes runs of workflows. */
export const workflowsTask: RepeatedTask<{ readonly store: Store; readonly bus: Bus }> = {
  name: "workflow_runs",
  of: "scheduler",
  onTicks: true,
  async run({ store, bus }) {
    await lookAtWorkflows(store, bus);
    return lookMs;
  },
};
