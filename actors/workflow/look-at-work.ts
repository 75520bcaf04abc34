import { SvcError } from "../../bus/errors.ts";
import type { StepWork } from "../../governance/workflows/definition.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { workedMs } from "./child-run.ts";
import { unitKey } from "./draft.ts";
import { endTry } from "./end-try.ts";
import type { Looked, Outcome, Pending, StepKind, Unit } from "./step-kind.ts";
import { againMs, type StepState, stateOf } from "./step-state.ts";
import { isMapRow, kindOf, type RunPlan, type Turn, workOf } from "./turn.ts";
import { unitOf } from "./units.ts";

/** Units that are read at once. */
const looksMax = 64;
/** Pause before a run looks for a kind whose plugin is missing. */
export const missingMs = 30_000;

/** Units whose end was reported, or whose start was refused with an outcome. */
export type Reported = Map<string, Outcome | null>;

/** Reads how far the open work is that is due or was reported, and ends what is over. */
export async function lookAtWork(turn: Turn, reported: Reported): Promise<void> {
  const { plan, draft, now } = turn;
  const due = draft
    .open()
    .filter((row) => reported.has(unitKey(row)) || (row.due_at ?? 0) <= now)
    .filter((row) => !isMapRow(plan, row));
  for (let from = 0; from < due.length; from += looksMax)
    await Promise.all(due.slice(from, from + looksMax).map((row) => lookAt(row, turn, reported)));
  // Ends that arrive from here on are for the next turn.
  for (const row of due) reported.delete(unitKey(row));
}

async function lookAt(row: WorkflowStepRow, turn: Turn, reported: Reported): Promise<void> {
  const { plan, draft, now } = turn;
  const outcome = reported.get(unitKey(row)) ?? null;
  const work = workOf(plan, row);
  const state = stateOf(row);
  const kind = kindOf(plan, work);
  if (state.again === true) return;
  if (outcome !== null) return endTry(row, work, outcome, turn);
  if (kind?.look === undefined) {
    draft.put({ ...row, status: "waiting", due_at: now + missingMs });
    return;
  }
  const unit = unitOf(row, work, kind, turn);
  if ("kind" in unit) return endTry(row, work, unit, turn);
  const looked = await readProgress(kind.look, unit, plan);
  if (looked === null) {
    draft.put({ ...row, due_at: plan.context.env.now() + againMs });
    return;
  }
  if (looked.kind === "failed" && state.timedOut === true)
    return endTry(row, work, { ...looked, error: timeoutWords(work) }, turn);
  // Work that was over before it could be stopped counts.
  if (looked.kind !== "pending") return endTry(row, work, looked, turn);
  await keepWaiting(row, work, kind, unit, looked, turn);
}

/** Returns how far the work of a step is; null if that cannot be read now. */
async function readProgress(
  look: NonNullable<StepKind["look"]>,
  unit: Unit,
  { context, services }: RunPlan,
): Promise<Looked | null> {
  try {
    return await look(unit, services);
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.code === "internal_error")
      context.deps.log.error({ err: error, step_id: unit.step_id }, "a step of a workflow could not be read");
    if (refusal.retryable || refusal.code === "internal_error") return null;
    return { kind: "failed", error: refusal.message, mayRetry: true };
  }
}

/** Stores the time of the next look at work in progress, and stops work that has reached its time limit. */
async function keepWaiting(
  row: WorkflowStepRow,
  work: StepWork,
  kind: StepKind,
  unit: Unit,
  looked: Pending,
  turn: Turn,
): Promise<void> {
  const { plan, draft } = turn;
  const now = plan.context.env.now();
  const state = stateOf(row);
  let { due_at } = looked;
  let timedOut = state.timedOut === true;
  if (work.timeout_seconds !== null && !timedOut) {
    const left = work.timeout_seconds * 1_000 - (await workedOf(row, unit, looked, turn));
    if (left > 0) due_at = Math.min(due_at, now + Math.max(500, left));
    else if (kind.cancel === undefined)
      return endTry(row, work, { kind: "failed", error: timeoutWords(work), mayRetry: true }, turn);
    else timedOut = true;
  }
  if (timedOut) {
    turn.cancels.push(unit);
    due_at = Math.min(due_at, now + againMs);
  }
  const own = looked.state ?? state.own;
  const next: StepState = { ...state, ...(timedOut && { timedOut }), ...(own !== undefined && { own }) };
  draft.put({ ...row, status: looked.status, due_at, state: JSON.stringify(next) });
}

/** Returns the milliseconds that a try has worked. Waits do not count. */
async function workedOf(row: WorkflowStepRow, unit: Unit, { status }: Pending, { plan }: Turn): Promise<number> {
  if (row.child_run_id !== null) return workedMs(unit, plan.services);
  if (status === "waiting") return 0;
  const now = plan.context.env.now();
  return now - (unit.started_at ?? now);
}

function timeoutWords({ timeout_seconds }: StepWork): string {
  return `timeout: the step has worked for more than ${timeout_seconds} seconds`;
}
