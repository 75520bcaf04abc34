import { runAddress, splitThreadId } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { RunOutput, RunResult } from "../../../bus/frames/output.ts";
import type { ParentRun, TaskOutcome } from "../../../bus/protocol/task.ts";
import { parentAddress } from "../billing/parent-run.ts";

// Reports of a child run to its parent run; see tasks.ts.

/** No deadline: the parent run may be waiting itself, and the report must arrive. The ask only fails if the parent is gone. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };
/** Frames that ask the reader a question. */
const questions: ReadonlySet<string> = new Set(["approval_required", "ui_request", "tool_request"]);

/**
 * Returns the output of a task. It reports the end to the parent run, unless that does not wait, and forwards questions to the
 * root run of the thread.
 */
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

/** Notifies the parent run that a task is suspended. A background task has no waiting parent. */
export function tellAside(parent: ParentRun, tenantId: string, bus: Bus): void {
  if (parent.background !== undefined) return;
  bus.tell(parentAddress(parent, tenantId), "taskAside", { task_id: parent.task_id });
}

/** Returns the outcome of a task for its parent run. */
export function taskOutcome({ final, failure, aborted, approvals, usage, taint }: RunResult): TaskOutcome {
  const rest = { approvals: approvals.map(({ approval_id }) => approval_id), usage, ...(taint && { taint }) };
  if (failure !== null) return { ok: false, text: failure, ...rest };
  if (aborted || final === null) return { ok: false, text: "the task was stopped", ...rest };
  return { ok: true, text: final, ...rest };
}

/** Returns the outcome of a task that ended with a refusal. */
export function refusedTask(text: string, usage: TaskOutcome["usage"]): TaskOutcome {
  return { ok: false, text, approvals: [], usage };
}
