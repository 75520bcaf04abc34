import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";

/** JSON of the column `state`: the progress of the current try of a step. */
export interface StepState {
  /** The step waits for its next try. */
  readonly again?: true;
  /** The step was given up because it worked for too long. */
  readonly timedOut?: true;
  /** Start of the try; absent before the first and between two tries. */
  readonly at?: number;
  /** JSON value that the kind stores for the try. */
  readonly own?: unknown;
}

/** Pause before a start is repeated that was refused for now, or whose outcome is unknown. */
export const againMs = 5_000;
/** Max characters of the error of a step or of a run. */
export const errorCharsMax = 2_000;

/** Returns the progress of the current try of a step. */
export function stateOf({ state }: Pick<WorkflowStepRow, "state">): StepState {
  return state === null ? {} : (JSON.parse(state) as StepState);
}

/** Returns the state of a step, or of an item of a map, that has not begun. */
export function newStep(run_id: string, step_id: string, item = -1): WorkflowStepRow {
  return {
    ...{
      run_id,
      step_id,
      item,
      status: "pending",
      attempt: 0,
      child_run_id: null,
      output: null,
      shown: null,
      error: null,
    },
    ...{ taint: [], state: null, due_at: null, cost_usd: 0, started_at: null, finished_at: null },
  } as WorkflowStepRow;
}
