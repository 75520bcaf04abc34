import { outputsBytesMax, type StepWork, valueBytesMax } from "../../governance/workflows/definition.ts";
import { shownOutput } from "../../governance/workflows/run-record.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import type { Draft } from "./draft.ts";
import type { Outcome } from "./step-kind.ts";
import { errorCharsMax, type StepState, stateOf } from "./step-state.ts";
import { isMapRow, isStopping, type Turn } from "./turn.ts";

/** Longest pause between two tries of a step. */
const backOffMsMax = 3_600_000;

/** Ends a try of a step or of an item: with its output, with another try, or as failed. */
export function endTry(row: WorkflowStepRow, work: Pick<StepWork, "retry">, outcome: Outcome, turn: Turn): void {
  const { draft, now } = turn;
  const { cost_usd = 0 } = outcome;
  const spent = row.cost_usd + cost_usd;
  if (cost_usd > 0) draft.run = { ...draft.run, cost_usd: draft.run.cost_usd + cost_usd };
  const ended = { ...row, state: null, due_at: null, cost_usd: spent, finished_at: now };
  if (outcome.kind === "done") {
    const output = JSON.stringify(outcome.output);
    const words = outputProblem(row, outcome.output, output, draft);
    if (words === null) {
      const shown = shownOutput(output, isMapRow(turn.plan, row));
      draft.put({ ...ended, status: "succeeded", output, shown, error: null, taint: outcome.taint.slice(0, 64) });
      return;
    }
    draft.put({ ...ended, status: "failed", error: words });
    return;
  }
  if (outcome.isOverBudget === true && !isStopping(draft.run))
    draft.putRun({ error: outcome.error.slice(0, errorCharsMax) });
  const { max, backoff_seconds } = work.retry;
  const isLast = row.attempt > max;
  if (outcome.mayRetry && !isLast && !isStopping(draft.run) && !turn.isCancelled) {
    const pause = Math.min(backOffMsMax, backoff_seconds * 1_000 * 2 ** (row.attempt - 1));
    const next: StepState = { again: true };
    draft.put({
      ...row,
      cost_usd: spent,
      status: "waiting",
      error: outcome.error.slice(0, errorCharsMax),
      state: JSON.stringify(next),
      due_at: now + pause,
    });
    return;
  }
  const hasActed = stateOf(row).at !== undefined && row.child_run_id !== null && outcome.isOverBudget !== true;
  const why =
    max > 0 && !outcome.mayRetry && !isLast && hasActed
      ? " (not tried again: a call that may have changed something had begun)"
      : "";
  draft.put({ ...ended, status: "failed", error: (outcome.error + why).slice(0, errorCharsMax) });
}

function outputProblem(
  { step_id, item }: WorkflowStepRow,
  ports: Readonly<Record<string, unknown>>,
  output: string,
  draft: Draft,
): string | null {
  const bytes = Buffer.byteLength(output);
  const [largest = ""] = Object.keys(ports).toSorted((a, b) => lengthOf(ports[b]) - lengthOf(ports[a]));
  const name = `steps.${step_id}.${largest}${item < 0 ? "" : ` of item ${item}`}`;
  if (bytes > valueBytesMax) return `output_too_large: ${name} has more than ${valueBytesMax} bytes`;
  let all = bytes;
  for (const step of draft.steps.values()) all += step.output?.length ?? 0;
  return all > outputsBytesMax
    ? `output_too_large: with ${name} the outputs of the run have more than ${outputsBytesMax} bytes`
    : null;
}

function lengthOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}
