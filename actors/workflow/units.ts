import { createHash } from "node:crypto";
import type { StepDefinition, StepWork } from "../../governance/workflows/definition.ts";
import { itemsProblem } from "../../governance/workflows/read-definition.ts";
import { Expansion, UnreadableReference, UnusableValue } from "../../governance/workflows/references.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import type { Draft } from "./draft.ts";
import { stepPrincipal } from "./run-principal.ts";
import type { Outcome, StepKind, Unit } from "./step-kind.ts";
import { stateOf } from "./step-state.ts";
import { filledConfig, RunValues } from "./step-values.ts";
import type { MapItems, RunPlan, Turn } from "./turn.ts";

// The work of a step with its values.

/** Returns the values that the steps of a run read. */
export function valuesOf({ run, steps }: Pick<Draft, "run" | "steps">): RunValues {
  return new RunValues({ value: JSON.parse(run.inputs), taint: run.taint }, steps);
}

/** Returns the items of a map, or why there are none. They do not change once the map has begun. */
export function itemsOf(step: StepDefinition, { plan: { mapItems }, draft }: Turn): MapItems | string {
  const known = mapItems.get(step.id) ?? readItems(step, draft);
  if (typeof known !== "string") mapItems.set(step.id, known);
  return known;
}

function readItems(step: StepDefinition, draft: Draft): MapItems | string {
  const expansion = new Expansion(valuesOf(draft).scopeOf(step.inputs, null));
  try {
    const value = expansion.of(step.config.items);
    return itemsProblem(value) ?? { value: value as readonly unknown[], taint: expansion.taint };
  } catch (error) {
    if (error instanceof UnusableValue) return error.message;
    throw error;
  }
}

/** Returns a unit with its config filled, or why that failed. */
export function unitOf(row: WorkflowStepRow, work: StepWork, kind: StepKind, turn: Turn): Unit | Outcome {
  const { plan, draft, now } = turn;
  const { run } = draft;
  const step = plan.byId.get(row.step_id) as StepDefinition;
  const values = valuesOf(draft);
  const { own = null, at = row.started_at } = stateOf(row);
  try {
    let item: Parameters<RunValues["scopeOf"]>[1] = null;
    if (row.item >= 0) {
      const items = itemsOf(step, turn);
      if (typeof items === "string") throw new UnusableValue(items);
      item = { value: items.value[row.item] ?? null, index: row.item, taint: items.taint };
    }
    const expansion = new Expansion(values.scopeOf(step.inputs, item));
    const config = filledConfig(work, kind, expansion, values);
    const inputs = expansion.of(step.inputs) as Record<string, unknown>;
    return {
      run_id: run.id,
      workflow_id: run.workflow_id,
      step_id: row.step_id,
      item: row.item,
      attempt: row.attempt,
      config,
      inputs,
      taint: expansion.taint,
      values: expansion,
      principal: principalOf(plan, draft, now),
      shared: plan.definition.limits.max_cost_usd === null ? null : { budgets: [run.id], priced: true },
      id: unitId(run.seed, row),
      state: own,
      started_at: at,
    };
  } catch (error) {
    const failed = unusable(error);
    if (failed === null) throw error;
    return failed;
  }
}

/** Returns how a step ends whose values cannot be used; null for any other error. */
export function unusable(error: unknown): Outcome | null {
  if (!(error instanceof UnusableValue || error instanceof UnreadableReference)) return null;
  return { kind: "failed", error: error.message, mayRetry: false };
}

function principalOf({ context, revision, services }: RunPlan, { run }: Draft, now: number) {
  return stepPrincipal({ ...run.starter, tenant_id: services.store.tenantId }, revision.saver, context.deps, now);
}

/** Returns the id of a try, which depends on a secret of the run. */
function unitId(
  seed: string,
  { step_id, item, attempt }: Pick<WorkflowStepRow, "step_id" | "item" | "attempt">,
): string {
  return createHash("sha256")
    .update(JSON.stringify([seed, step_id, item, attempt]))
    .digest("hex")
    .slice(0, 32);
}
