import { isRevoked } from "../../governance/auth/revoked.ts";
import type { StepWork } from "../../governance/workflows/definition.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { type Draft, isOpen } from "./draft.ts";
import type { Unit } from "./step-kind.ts";
import { againMs, errorCharsMax, stateOf } from "./step-state.ts";
import { isMapRow, isStopping, kindOf, type RunPlan, type Turn, workOf } from "./turn.ts";
import { unitOf } from "./units.ts";

/** Max age of a run. */
const ageMsMax = 60 * 86_400_000;

/** Returns the time at which a run has reached its time limit. */
export function deadlineOf({ definition }: RunPlan, { run }: Pick<Draft, "run">): number {
  const { max_wall_clock_seconds } = definition.limits;
  return run.ts + Math.min(ageMsMax, (max_wall_clock_seconds ?? Number.POSITIVE_INFINITY) * 1_000);
}

/** Begins to stop the run: on request, after a failed step, at its deadline, beyond its budget, or without its starter. */
export function stopIfDue({ plan, draft, isCancelled }: Turn): void {
  const { env, deps } = plan.context;
  if (isCancelled && draft.run.status !== "cancelling") draft.putRun({ status: "cancelling" });
  if (isStopping(draft.run)) return;
  const { max_cost_usd } = plan.definition.limits;
  const starter = { ...draft.run.starter, tenant_id: plan.services.store.tenantId };
  const failed = [...draft.steps.values()].find(
    ({ status, step_id }) => status === "failed" && plan.byId.get(step_id)?.on_error === "fail",
  );
  if (failed !== undefined)
    draft.putRun({ error: `step_failed: ${failed.step_id}: ${failed.error ?? ""}`.slice(0, errorCharsMax) });
  else if (isRevoked(starter, deps, env.now())) draft.putRun({ error: "principal_revoked" });
  else if (env.now() >= deadlineOf(plan, draft))
    draft.putRun({ error: "deadline: the run has reached its time limit" });
  // The runs of steps reserve from the budget. Other kinds report what they have spent.
  else if (max_cost_usd !== null && draft.run.cost_usd >= max_cost_usd && hasWork(draft))
    draft.putRun({ error: `budget_exceeded: the run has spent its ${max_cost_usd} USD` });
}

/** Cancels what has not begun, and stops what is in progress. */
export function stopSteps(turn: Turn): void {
  const { plan, draft, now, ops, cancels } = turn;
  for (const row of draft.steps.values())
    if (row.status === "pending") draft.put({ ...row, status: "cancelled", finished_at: now });
  for (const row of draft.open()) {
    if (isMapRow(plan, row)) continue;
    const work = workOf(plan, row);
    const unit = unitInProgress(row, work, turn);
    if (unit === null) {
      draft.put(cancelled(row, now));
      continue;
    }
    const kind = kindOf(plan, work);
    ops.push(...(kind?.cancelOps?.(unit, plan.services) ?? []));
    if (row.child_run_id === null) {
      if (kind?.cancel !== undefined) cancels.push(unit);
      draft.put(cancelled(row, now));
    } else {
      cancels.push(unit);
      if ((row.due_at ?? 0) > now + againMs || (row.due_at ?? 0) <= now) draft.put({ ...row, due_at: now + againMs });
    }
  }
  for (const row of draft.steps.values()) {
    if (!isOpen(row) || !isMapRow(plan, row)) continue;
    if ([...(draft.items.get(row.step_id)?.values() ?? [])].some(isOpen)) continue;
    draft.put(cancelled(row, now));
  }
}

/** Stops an item whose map has failed. */
export function stopItem(row: WorkflowStepRow, inner: StepWork, turn: Turn): void {
  const { draft, now, cancels } = turn;
  const unit = unitInProgress(row, inner, turn);
  if (unit === null || row.child_run_id === null) {
    draft.put(cancelled(row, now));
    return;
  }
  cancels.push(unit);
  if ((row.due_at ?? 0) > now + againMs) draft.put({ ...row, due_at: now + againMs });
}

/** Returns the unit of an open step; null between two tries, without its kind, or without usable values. */
function unitInProgress(row: WorkflowStepRow, work: StepWork, turn: Turn): Unit | null {
  const kind = kindOf(turn.plan, work);
  if (kind === undefined || stateOf(row).again === true) return null;
  const unit = unitOf(row, work, kind, turn);
  return "kind" in unit ? null : unit;
}

function cancelled(row: WorkflowStepRow, now: number): WorkflowStepRow {
  return { ...row, status: "cancelled", state: null, due_at: null, finished_at: now };
}

/** True if a step of the run has not ended. */
export function hasWork(draft: Draft): boolean {
  return [...draft.steps.values()].some(({ status }) => status === "pending") || draft.open().length > 0;
}
