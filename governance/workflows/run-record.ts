import { publicThread, workflowSuffix } from "../../bus/address.ts";
import { cutText } from "../../bus/cut-text.ts";
import type { WorkflowRunRow, WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { isRecord, type StepDefinition } from "./definition.ts";

/** Max characters of a value in lists and frames (decision 265). */
const shownCharsMax = 4_096;

/** Returns a run for its readers. `isCut` shortens long values and leaves the results of maps out, for lists and frames. */
export function runRecord(
  tenantId: string,
  run: WorkflowRunRow,
  steps: readonly WorkflowStepRow[],
  definition: readonly Pick<StepDefinition, "id" | "kind" | "label">[],
  isCut: boolean,
): Record<string, unknown> {
  const byId = new Map(steps.map((step) => [step.step_id, step]));
  const shown = (text: string | null): unknown => (isCut ? cutValues(parsed(text)) : parsed(text));
  return {
    run_id: run.id,
    workflow_id: run.workflow_id,
    revision: run.revision,
    status: run.status,
    inputs: shown(run.inputs),
    outputs: shown(run.outputs),
    error: run.error,
    version: run.version,
    steps: definition.map(({ id, kind, label }) => {
      const step = byId.get(id);
      const isMap = kind === "map";
      return {
        step_id: id,
        kind,
        label,
        status: step?.status ?? "pending",
        attempt: step?.attempt ?? 0,
        thread_id: step?.child_run_id == null ? null : publicThread(tenantId, workflowSuffix(run.id, id, -1)),
        output: isCut && isMap ? null : parsed((isCut && step?.shown) || (step?.output ?? null)),
        error: step?.error ?? null,
        taint: step?.taint ?? [],
        started_at: step?.started_at ?? null,
        finished_at: step?.finished_at ?? null,
      };
    }),
    started_by: run.starter.sub,
    cause: run.cause,
    cost_usd: Math.round(run.cost_usd * 1e8) / 1e8,
    created_at: run.ts,
    finished_at: run.finished_at,
  };
}

/**
 * Returns the output of a step as lists and frames show it; null if that is the output itself. The results of a map are left out.
 */
export function shownOutput(output: string, isMap: boolean): string | null {
  if (isMap) return "null";
  return output.length <= shownCharsMax ? null : JSON.stringify(cutValues(JSON.parse(output)));
}

function parsed(text: string | null): unknown {
  return text === null ? null : JSON.parse(text);
}

/** Returns a value whose long texts are cut; a list or an object whose JSON is long becomes a text. */
function cutValues(value: unknown): unknown {
  if (!isRecord(value)) return cutValue(value);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cutValue(one)]));
}

function cutValue(value: unknown): unknown {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "null");
  return text.length <= shownCharsMax ? value : cutText(text, shownCharsMax);
}
