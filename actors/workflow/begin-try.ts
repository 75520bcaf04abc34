import { SvcError } from "../../bus/errors.ts";
import type { StepWork } from "../../governance/workflows/definition.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { endTry } from "./end-try.ts";
import { missingMs } from "./look-at-work.ts";
import type { Begun } from "./step-kind.ts";
import type { StepState } from "./step-state.ts";
import { kindOf, type Turn } from "./turn.ts";
import { unitOf } from "./units.ts";

/** Begins a try of a step, or of an item of a map. */
export async function beginTry(row: WorkflowStepRow, work: StepWork, turn: Turn): Promise<void> {
  const { plan, draft, now } = turn;
  const kind = kindOf(plan, work);
  if (kind === undefined) {
    // The plugin is missing; the run waits for it, as durable runs do (decision 225).
    const state: StepState = { again: true };
    draft.put({
      ...row,
      status: "waiting",
      state: JSON.stringify(state),
      error: `missing_kind: ${work.kind}`,
      due_at: now + missingMs,
    });
    return;
  }
  const next = { ...row, attempt: row.attempt + 1, state: null, started_at: row.started_at ?? now };
  const unit = unitOf({ ...next, state: JSON.stringify({ at: now } satisfies StepState) }, work, kind, turn);
  if ("kind" in unit) return endTry(next, work, unit, turn);
  let begun: Begun;
  try {
    begun = await kind.begin(unit, plan.services);
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.code === "internal_error")
      plan.context.deps.log.error({ err: error, step_id: row.step_id }, "a step of a workflow could not begin");
    begun = { kind: "failed", error: refusal.message, mayRetry: false };
  }
  if (begun.kind !== "pending") return endTry(next, work, begun, turn);
  const { status, due_at, state, child_run_id = null } = begun;
  turn.ops.push(...(begun.ops ?? []));
  const stored: StepState = { at: now, ...(state !== undefined && { own: state }) };
  draft.put({ ...next, status, due_at, child_run_id, error: null, state: JSON.stringify(stored) });
  if (kind.started !== undefined) turn.starts.push(unit);
}
