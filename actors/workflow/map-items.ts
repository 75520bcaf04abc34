import type { StepDefinition, StepWork } from "../../governance/workflows/definition.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import { beginTry } from "./begin-try.ts";
import { isOpen, isOver } from "./draft.ts";
import { endTry } from "./end-try.ts";
import { errorCharsMax, newStep, stateOf } from "./step-state.ts";
import { firstPort } from "./step-values.ts";
import { stopItem } from "./stop-run.ts";
import { innerOf, kindOf, type MapItems, type Turn } from "./turn.ts";
import { itemsOf } from "./units.ts";

const parallelDefault = 4;

/** Begins up to `room` further items of a map, and ends it after its last. Returns the number of items that began. */
export async function advanceMap(
  step: StepDefinition,
  row: WorkflowStepRow,
  room: number,
  turn: Turn,
): Promise<number> {
  const { draft, now } = turn;
  const inner = innerOf(step);
  const items = itemsOf(step, turn);
  if (typeof items === "string") {
    draft.put({ ...row, status: "failed", error: items, state: null, due_at: null, finished_at: now });
    return 0;
  }
  const failed = rowsOf(step.id, turn).find(({ status }) => status === "failed");
  if (failed !== undefined && inner.on_error === "fail") {
    failMap(row, failed, inner, turn);
    return 0;
  }
  const begun = await beginItems(step, items, room, turn);
  const all = rowsOf(step.id, turn);
  const isComplete = all.length === items.value.length && all.every(isOver);
  const hasFailed = inner.on_error === "fail" && all.some(({ status }) => status === "failed");
  if (isComplete && !hasFailed) endMap(row, inner, all, items.taint, turn);
  return begun;
}

async function beginItems(step: StepDefinition, items: MapItems, room: number, turn: Turn): Promise<number> {
  const { draft, now } = turn;
  const inner = innerOf(step);
  const rows = rowsOf(step.id, turn);
  let begun = 0;
  for (const again of rows)
    if (isOpen(again) && stateOf(again).again === true && (again.due_at ?? 0) <= now && begun < room) {
      await beginTry(again, inner, turn);
      begun++;
    }
  const max = Number(step.config.max_parallel ?? parallelDefault);
  let open = rowsOf(step.id, turn).filter(isOpen).length;
  for (let at = rows.length; at < items.value.length && open < max && begun < room; at++) {
    await beginTry(newStep(draft.run.id, step.id, at), inner, turn);
    begun++;
    const made = draft.of(step.id, at);
    if (made !== undefined && isOpen(made)) open++;
    if (made?.status === "failed" && inner.on_error === "fail") break;
  }
  return begun;
}

/** Fails a map with one of its items, after the others have stopped. */
function failMap(row: WorkflowStepRow, failed: WorkflowStepRow, inner: StepWork, turn: Turn): void {
  const open = rowsOf(row.step_id, turn).filter(isOpen);
  for (const other of open) stopItem(other, inner, turn);
  if (open.length > 0) return;
  const error = `item ${failed.item}: ${failed.error ?? ""}`.slice(0, errorCharsMax);
  turn.draft.put({ ...row, status: "failed", error, state: null, due_at: null, finished_at: turn.now });
}

function endMap(
  row: WorkflowStepRow,
  inner: StepWork,
  rows: readonly WorkflowStepRow[],
  taint: readonly string[],
  turn: Turn,
): void {
  const shape = kindOf(turn.plan, inner);
  const results = rows
    .toSorted((a, b) => a.item - b.item)
    .map(({ output }) => (output === null || shape === undefined ? null : firstPort(shape, JSON.parse(output))));
  const sources = [...new Set([...taint, ...rows.flatMap((one) => one.taint)])].sort();
  // The items have had their tries.
  const noRetry = { retry: { max: 0, backoff_seconds: 1 } };
  endTry(row, noRetry, { kind: "done", output: { results }, taint: sources }, turn);
}

function rowsOf(stepId: string, { draft }: Turn): WorkflowStepRow[] {
  return [...(draft.items.get(stepId)?.values() ?? [])];
}
