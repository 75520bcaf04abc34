import { evalsAddress, workflowAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import { silentOutput } from "../../../bus/frames/silent-output.ts";
import type { EvaluatedRun } from "../../../bus/protocol/run.ts";
import type { WorkflowStepRun } from "../../../bus/protocol/workflow.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { taskOutput } from "./parent-report.ts";

/** Returns the output of a run without a listening client: a task reports to its parent, an item to its evaluation, a step to its
 * workflow. */
export function durableOutput(
  {
    parent,
    evaluation,
    workflow,
    principal: { tenant_id },
  }: Pick<RunSpec, "parent" | "evaluation" | "workflow" | "principal">,
  bus: Bus,
): RunOutput {
  if (parent !== null) return taskOutput(parent, tenant_id, bus);
  if (evaluation === null && workflow === null) return silentOutput;
  const end = () => {
    if (evaluation !== null) tellEvaluation(tenant_id, evaluation, bus);
    if (workflow !== null) tellWorkflow(tenant_id, workflow, bus);
  };
  return { ...silentOutput, finished: end, failed: end };
}

/** Notifies the evaluation that a run of one of its items has ended. If the message is lost, the evaluation finds the end itself. */
export function tellEvaluation(tenantId: string, { eval_run_id, item_id }: EvaluatedRun, bus: Bus): void {
  bus.tell(evalsAddress(tenantId, eval_run_id), "ended", { item_id });
}

/** Notifies the workflow that the run of one of its steps has ended. If the message is lost, the workflow finds the end itself. */
export function tellWorkflow(tenantId: string, { run_id, step_id, item }: WorkflowStepRun, bus: Bus): void {
  bus.tell(workflowAddress(tenantId, run_id), "ended", { step_id, item });
}
