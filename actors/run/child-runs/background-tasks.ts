import { taskSuffix, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { backgroundTasks } from "../../../storage/tables/run-budgets.ts";
import { besideState } from "../../../storage/tables/task-waits.ts";
import { type ToolResult, type ToolWait, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import type { AskedTask } from "../context/task-family.ts";
import { stopHooksOf } from "./stop-hooks.ts";
import { mayHaveStarted, refusedStart, sharedBudgets, startTask, stopTask } from "./task-start.ts";
import { activeMs, type TaskNames, taskTurn } from "./task-turn.ts";
import { closeWorktree, openWorktree } from "./worktree.ts";

// Tasks that no call waits for. Each is a durable run: it outlives the run and the process that started it. It spends from shared
// budget rows; see billing/tree-budget.ts.

/** Time after which a task that may begin late is stopped again, and how often. */
const stopMs = 5_000;
const stopsMax = 3;

/**
 * Starts a background task; `runContext` is that of the agent that the caller asked. The result for the model contains the id of
 * the task.
 */
export async function startBeside(
  runContext: RunContext,
  task: Pick<AskedTask, "agent" | "prompt" | "worktree">,
  names: TaskNames,
  tasksMax: number,
  signal: AbortSignal,
): Promise<ToolResult> {
  const { spec, deps, store } = runContext;
  const { task_id } = names;
  if (spec.parent?.beside) return toolError("permission_denied", "a task in the background begins no other there");
  const rootKey = spec.parent?.root_key ?? spec.thread_key;
  try {
    if ((await backgroundTasks(store, rootKey)) >= tasksMax) return tooMany(tasksMax);
    const refused = task.worktree ? await openWorktree(runContext, task_id) : null;
    if (refused !== null) return refused;
    const shared = await sharedBudgets(runContext);
    const stopHooks = stopHooksOf(runContext);
    await startTask(
      runContext,
      taskTurn(runContext, task, names, shared, {
        active_ms: activeMs(runContext),
        tasks_max: tasksMax,
        ...(stopHooks !== null && { stop_hooks: stopHooks }),
      }),
    );
  } catch (error) {
    if (!mayHaveStarted(error)) await closeWorktree(runContext, task_id).catch(() => "");
    // A concurrent start took the last place.
    if (error instanceof SvcError && error.code === "conflict") return tooMany(tasksMax);
    if (mayHaveStarted(error)) stopLate(runContext, task_id, 0);
    return refusedStart(task.agent, error);
  }
  const thread_id = threadAddress(spec.principal.tenant_id, taskSuffix(task_id)).key;
  if (!signal.aborted)
    runContext.stream.frameInCall("subagent_start", { agent: task.agent, background: true, task_id, thread_id });
  // Without a worker in this process the task stays pending.
  const status = deps.settings.durablePollSeconds > 0 ? "running" : "pending";
  return { text: JSON.stringify({ task_id, thread_id, status }) };
}

/** Returns the state of a background task of the thread, or a wait for its end if the call wants to wait. */
export async function backgroundResult(
  runContext: RunContext,
  task_id: string,
  waitSeconds: number,
): Promise<ToolResult | ToolWait> {
  const { spec, eventLog, store, deps } = runContext;
  const state = await besideState(store, spec.parent?.root_thread_id ?? eventLog.threadId, task_id);
  if (state === null) return toolError("not_found", `this conversation has no task ${task_id} in the background`);
  if (state.isOver || waitSeconds === 0) {
    const { status, result, taint } = state;
    const work = state.isOver ? await closeWorktree(runContext, task_id) : "";
    return { text: JSON.stringify({ task_id, status, result }) + work, ...(taint.length > 0 && { taint }) };
  }
  const deadline = deps.env.now() + waitSeconds * 1_000;
  const may_answer = { scopes: [], principal: "", not_principal: null };
  return { wait: { kind: "task_result", subject: state.manifest, deadline, may_answer, asked_as: task_id } };
}

/** Stops a task whose start has an unknown outcome, because the model has not received its id. Tries again if it may begin late. */
function stopLate(runContext: RunContext, taskId: string, tries: number): void {
  void stopTask(runContext, taskId)
    .catch(() => false)
    .then((isStopped) => {
      if (isStopped || tries === stopsMax) return;
      runContext.deps.env.timer(stopMs, () => stopLate(runContext, taskId, tries + 1));
    });
}

function tooMany(tasksMax: number): ToolResult {
  return toolError(
    "rate_limited",
    `${tasksMax} tasks of this conversation are in the background, which is as many as may`,
  );
}
