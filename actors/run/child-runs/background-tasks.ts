import { taskSuffix, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { backgroundTasks } from "../../../storage/tables/run-budgets.ts";
import { besideState } from "../../../storage/tables/task-waits.ts";
import { type ToolResult, type ToolWait, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import type { AskedTask } from "../context/task-family.ts";
import { refusedStart, sharedBudgets, startTask } from "./task-start.ts";
import { activeMs, type TaskNames, taskTurn } from "./task-turn.ts";

// Tasks that no call waits for. Each is a durable run: it outlives the run and the process that started it. It spends from shared
// budget rows; see billing/tree-budget.ts.

/**
 * Starts a background task; `runContext` is that of the agent that the caller asked. The result for the model contains the id of
 * the task.
 */
export async function startBeside(
  runContext: RunContext,
  task: Pick<AskedTask, "agent" | "prompt">,
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
    const shared = await sharedBudgets(runContext);
    await startTask(
      runContext,
      taskTurn(runContext, task, names, { ...shared, active_ms: activeMs(runContext), tasks_max: tasksMax }),
    );
  } catch (error) {
    // A concurrent start took the last place.
    if (error instanceof SvcError && error.code === "conflict") return tooMany(tasksMax);
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
  { spec, eventLog, store, deps }: RunContext,
  task_id: string,
  waitSeconds: number,
): Promise<ToolResult | ToolWait> {
  const state = await besideState(store, spec.parent?.root_thread_id ?? eventLog.threadId, task_id);
  if (state === null) return toolError("not_found", `this conversation has no task ${task_id} in the background`);
  if (state.isOver || waitSeconds === 0) {
    const { status, result } = state;
    return { text: JSON.stringify({ task_id, status, result }) };
  }
  const deadline = deps.env.now() + waitSeconds * 1_000;
  const may_answer = { scopes: [], principal: "", not_principal: null };
  return { wait: { kind: "task_result", subject: state.manifest, deadline, may_answer, asked_as: task_id } };
}

function tooMany(tasksMax: number): ToolResult {
  return toolError(
    "rate_limited",
    `${tasksMax} tasks of this conversation are in the background, which is as many as may`,
  );
}
