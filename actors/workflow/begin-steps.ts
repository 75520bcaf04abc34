import { holds, readCondition } from "../../governance/workflows/condition.ts";
import type { StepDefinition } from "../../governance/workflows/definition.ts";
import { Expansion } from "../../governance/workflows/references.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { beginTry } from "./begin-try.ts";
import { type Draft, isOpen, isOver } from "./draft.ts";
import { endTry } from "./end-try.ts";
import { advanceMap } from "./map-items.ts";
import { stateOf } from "./step-state.ts";
import { stopIfDue, stopSteps } from "./stop-run.ts";
import { isStopping, type Turn } from "./turn.ts";
import { unusable, valuesOf } from "./units.ts";

/** Steps and items that one batch begins at most. The next turn begins more. */
const beginMax = 64;

/** Ends and begins steps until nothing changes. */
export async function beginSteps(turn: Turn): Promise<void> {
  const { plan, draft, now } = turn;
  let begun = 0;
  for (let changed = true; changed && !isStopping(draft.run); ) {
    changed = false;
    for (const step of plan.definition.steps) {
      const row = draft.steps.get(step.id);
      if (row === undefined) continue;
      if (step.kind === "map" && isOpen(row)) {
        const made = await advanceMap(step, row, beginMax - begun, turn);
        begun += made;
        if (made > 0 || isOver(draft.steps.get(step.id) ?? row)) changed = true;
      } else if (isOpen(row) && stateOf(row).again === true && (row.due_at ?? 0) <= now) {
        await beginTry(row, step, turn);
        changed = true;
      } else if (row.status === "pending" && isReady(step, draft)) {
        if (begun >= beginMax) {
          turn.hasMore = true;
          return;
        }
        begun++;
        await enter(step, row, turn);
        changed = true;
      }
    }
    stopIfDue(turn);
    if (begun >= beginMax) {
      turn.hasMore = true;
      break;
    }
  }
  if (isStopping(draft.run)) stopSteps(turn);
}

function isReady({ needs }: StepDefinition, draft: Draft): boolean {
  return needs.every((id) => isOver(draft.steps.get(id) ?? { status: "pending" }));
}

/** Skips a step whose needs have ended, or begins it. */
async function enter(step: StepDefinition, row: WorkflowStepRow, turn: Turn): Promise<void> {
  const { draft, now } = turn;
  let isSkipped: boolean;
  try {
    isSkipped = skips(step, draft);
  } catch (error) {
    const failed = unusable(error);
    if (failed === null) throw error;
    return endTry({ ...row, started_at: now }, step, failed, turn);
  }
  if (isSkipped) draft.put({ ...row, status: "skipped", finished_at: now });
  else if (step.kind === "map") draft.put({ ...row, status: "running", attempt: 1, started_at: now });
  else await beginTry(row, step, turn);
}

/** True if a step does not run: its needs were all skipped, or its condition does not hold. */
function skips({ needs, when, inputs }: StepDefinition, draft: Draft): boolean {
  if (needs.length > 0 && needs.every((id) => draft.steps.get(id)?.status === "skipped")) return true;
  return when !== null && !holds(readCondition(when), new Expansion(valuesOf(draft).scopeOf(inputs, null)));
}
