import { runAddress, splitThreadId } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { RunOutput, RunResult } from "../../../bus/frames/output.ts";
import type { ParentRun, TaskOutcome } from "../../../bus/protocol/run.ts";
import { parentAddress } from "../billing/parent-budget.ts";

// What a child run reports to its parent run: see tasks.ts.

/** The parent run may wait for others, and reports must arrive: only a parent that is gone does not answer. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };
/** Frames in which a run asks something of its reader. */
const questions: ReadonlySet<string> = new Set(["approval_required", "ui_request", "tool_request"]);

/** Tells the run above how a task has ended, unless it does not wait for it, and the one that its conversation began with what it asks for. */
export function taskOutput(parent: ParentRun, tenantId: string, bus: Bus): RunOutput {
  const { task_id, root_thread_id, root_run_id } = parent;
  const above = parentAddress(parent, tenantId);
  const root = runAddress(tenantId, splitThreadId(root_thread_id).suffix, root_run_id);
  const end = (outcome: TaskOutcome): void => {
    if (parent.background !== undefined) return;
    void bus.ask(above, "taskEnded", { task_id, outcome }, patient).catch(() => {});
  };
  return {
    writable: true,
    onWritable: (work) => work(),
    started() {},
    text() {},
    thinking() {},
    frame(name, data) {
      if (questions.has(name)) bus.tell(root, "relay", { name, data });
    },
    finished: (result) => end(taskOutcome(result)),
    failed: (error) => end(refusedTask(error.code, null)),
  };
}

/** Tells the run above, where it waits, that a task is put aside. */
export function tellAside(parent: ParentRun, tenantId: string, bus: Bus): void {
  if (parent.background !== undefined) return;
  bus.tell(parentAddress(parent, tenantId), "taskAside", { task_id: parent.task_id });
}

/** What came of a task, as the run above is told. */
export function taskOutcome({ final, failure, aborted, approvals, usage }: RunResult): TaskOutcome {
  const rest = { approvals: approvals.map(({ approval_id }) => approval_id), usage };
  if (failure !== null) return { ok: false, text: failure, ...rest };
  if (aborted || final === null) return { ok: false, text: "the task was stopped", ...rest };
  return { ok: true, text: final, ...rest };
}

/** The same of one that something was refused to on the way. */
export function refusedTask(text: string, usage: TaskOutcome["usage"]): TaskOutcome {
  return { ok: false, text, approvals: [], usage };
}
