import { valueBytesMax } from "../../governance/workflows/definition.ts";
import { Expansion, UnusableValue } from "../../governance/workflows/references.ts";
import type { WorkflowRunRow } from "../../storage/tables/workflow-runs.ts";
import { isOver } from "./draft.ts";
import { againMs } from "./step-state.ts";
import { deadlineOf } from "./stop-run.ts";
import { isMapRow, isStopping, type Turn } from "./turn.ts";
import { valuesOf } from "./units.ts";

/** Ends the run if nothing is left to do; otherwise sets its status and the time of its next look. */
export function endOrWait(turn: Turn): void {
  const { plan, draft } = turn;
  const now = plan.context.env.now();
  const open = draft.open();
  const isStopped = isStopping(draft.run);
  if (open.length === 0 && [...draft.steps.values()].every(isOver)) {
    const stopped = draft.run.status === "cancelling" ? "cancelled" : "failed";
    draft.putRun({ ...(isStopped ? { status: stopped } : outputsOf(turn)), finished_at: now, wake_at: null });
    return;
  }
  const working = open.filter((row) => !isMapRow(plan, row));
  const isRunning = working.some(({ status }) => status === "running") || working.length === 0;
  const status = draft.run.status === "cancelling" ? "cancelling" : isRunning ? "running" : "waiting";
  if (status !== draft.run.status) draft.putRun({ status });
  const due = working.map(({ due_at }) => due_at ?? now + againMs);
  const latest = isStopped ? now + againMs : deadlineOf(plan, draft);
  const wake_at = Math.min(latest, ...(due.length === 0 ? [now + againMs] : due));
  draft.run = { ...draft.run, wake_at: Math.ceil(wake_at) };
}

function outputsOf({ plan, draft }: Turn): Pick<WorkflowRunRow, "status" | "outputs" | "error"> {
  const expansion = new Expansion(valuesOf(draft).scope());
  try {
    const outputs = JSON.stringify(expansion.of(plan.definition.outputs));
    if (Buffer.byteLength(outputs) <= valueBytesMax) return { status: "succeeded", outputs, error: null };
  } catch (error) {
    if (!(error instanceof UnusableValue)) throw error;
  }
  return {
    status: "failed",
    outputs: null,
    error: `output_too_large: the outputs have more than ${valueBytesMax} bytes`,
  };
}
