import { taskSuffix } from "../../bus/address.ts";
import type { TaskOutcome } from "../../bus/protocol/task.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { durableRowById } from "./durable-rows.ts";
import type { RunAsked } from "./run-columns.ts";
import { newestRun, type RunRow, runOfThread, waitingRun } from "./runs.ts";
import { threadBySuffix } from "./threads.ts";
import { type NewWait, openWaitOp, type WaitAnswer } from "./waits.ts";

// A run waits for its suspended task as for any other answer. The batch that ends the task's run answers the wait. The
// row of that run holds the result.

/** A task, as the wait identifies it. */
export interface WaitedTask {
  readonly task_id: string;
  /** Key of the thread that the task belongs to. */
  readonly root_key: number;
}

/** A suspended run of a task. */
export interface TaskAside {
  readonly suffix: string;
  readonly run_id: string;
}

/** Locks the run of a task, so that opening a wait for it and ending it wait for each other. */
const lockTask = tenantSql(
  "task_lock",
  `UPDATE runs SET status = status WHERE tenant_id = :tenant AND ended_at IS NULL
     AND thread_key = (SELECT thread_key FROM threads WHERE tenant_id = :tenant AND suffix = ?)`,
);
const joinTask = tenantSql(
  "task_join",
  `UPDATE waits SET state = 'answered', answer = ?
   WHERE tenant_id = :tenant AND wait_id = ? AND state = 'open' AND NOT EXISTS
     (SELECT 1 FROM runs r JOIN threads t ON t.thread_key = r.thread_key
      WHERE t.tenant_id = :tenant AND t.suffix = ? AND r.ended_at IS NULL)`,
);
const answerTask = tenantSql(
  "task_answer",
  `UPDATE waits SET state = 'answered', answer = ?
   WHERE tenant_id = :tenant AND asked_on = ? AND asked_as = ? AND state = 'open' AND kind IN ('task', 'task_result')`,
);
// Excludes background tasks, which continue without the parent run.
const selectAside = tenantSql(
  "tasks_aside",
  `SELECT DISTINCT w.suffix, w.run_id, r.asked FROM waits w
     JOIN runs r ON r.tenant_id = w.tenant_id AND r.thread_key = w.thread_key AND r.ended_at IS NULL
   WHERE w.tenant_id = :tenant AND w.asked_on = ? AND w.state = 'open' AND r.parent_run_id = ?`,
);
const selectWaiting = tenantSql(
  "task_waiting",
  `SELECT DISTINCT suffix, run_id FROM waits
   WHERE tenant_id = :tenant AND asked_on = ? AND asked_as = ? AND state = 'answered' AND kind = 'task_result'`,
);

/**
 * Returns operations that open a wait for a task, or for the end of a background task. The wait is answered at once if
 * the task has ended.
 */
export function openTaskOps(store: TenantStore, wait: NewWait, task_id: string): WriteOp[] {
  const suffix = taskSuffix(task_id);
  return [
    store.op(lockTask, [suffix]),
    openWaitOp(store, wait),
    store.op(joinTask, [answerText(task_id), wait.wait_id, suffix]),
  ];
}

/** Answers the waits for a task, in the batch that ends its run, so that the waiting runs resume. */
export function answerTaskOp(store: TenantStore, { task_id, root_key }: WaitedTask): WriteOp {
  return store.op(answerTask, [answerText(task_id), root_key, task_id]);
}

/** Returns the runs whose wait for the end of a background task is answered. */
export async function waitingForTask(store: TenantStore, { root_key, task_id }: WaitedTask): Promise<TaskAside[]> {
  return (await store.read(selectWaiting, root_key, task_id)) as unknown as TaskAside[];
}

/** Returns the suspended tasks of a run, except background tasks. */
export async function tasksAside(store: TenantStore, rootKey: number, runId: string): Promise<TaskAside[]> {
  const rows = await store.read(selectAside, rootKey, runId);
  return rows.flatMap(({ suffix, run_id, asked }) =>
    (JSON.parse(String(asked)) as RunAsked).parent?.background === undefined
      ? [{ suffix: String(suffix), run_id: String(run_id) }]
      : [],
  );
}

/** True if the task was started by this run and has not ended. */
export async function isTaskOf(store: TenantStore, task_id: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, taskSuffix(task_id));
  const run = thread && (await newestRun(store, thread.thread_key));
  return run?.parent_run_id === runId && run.ended_at === null;
}

/** True if the run of a thread has not ended. */
export async function isOpenRun(store: TenantStore, suffix: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, suffix);
  const run = thread && (await runOfThread(store, thread.thread_key, runId));
  return run?.ended_at === null;
}

/**
 * Returns the state of a task from its run row: its result if it has ended, with a generic text if it was interrupted.
 */
export async function taskState(
  store: TenantStore,
  task_id: string,
): Promise<TaskOutcome | "aside" | "running" | null> {
  const thread = await threadBySuffix(store, taskSuffix(task_id));
  const run = thread && (await newestRun(store, thread.thread_key));
  if (!run) return null;
  if (run.ended_at === null) return run.status === "waiting" ? "aside" : "running";
  return run.result?.task ?? { ok: false, text: "the task was interrupted", approvals: [], usage: null };
}

/** State of a background task, as its thread is informed. */
export interface BesideState {
  readonly manifest: string;
  readonly status: "pending" | "running" | "completed" | "failed" | "expired";
  readonly isOver: boolean;
  /** Its reply, or its error; null while it runs. */
  readonly result: string | null;
  /** Untrusted sources of the reply; empty for none. */
  readonly taint: readonly string[];
}

/**
 * Returns the state of a background task of a thread. Null for a task of another thread, or one that its run waits for.
 */
export async function besideState(
  store: TenantStore,
  rootThreadId: string,
  task_id: string,
): Promise<BesideState | null> {
  const thread = await threadBySuffix(store, taskSuffix(task_id));
  if (thread?.parent_session_id !== rootThreadId) return null;
  const run = await newestRun(store, thread.thread_key);
  const durableRun = run?.asked.parent?.background && (await durableRowById(store, run.run_id));
  if (!run || !durableRun) return null;
  const isOver = run.ended_at !== null;
  return {
    manifest: run.manifest,
    status: told[run.status],
    isOver,
    result: isOver ? (durableRun.final ?? durableRun.error) : null,
    taint: run.result?.task?.taint ?? [],
  };
}

const told: Readonly<Record<RunRow["status"], BesideState["status"]>> = {
  accepted: "pending",
  running: "running",
  waiting: "running",
  completed: "completed",
  failed: "failed",
  expired: "expired",
  dead: "failed",
};

/** True if the run of a thread is suspended. */
export async function isWaitingRun(store: TenantStore, suffix: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, suffix);
  return thread !== undefined && (await waitingRun(store, thread.thread_key))?.run_id === runId;
}

function answerText(task_id: string): string {
  return JSON.stringify({ value: { task_id }, by: taskSuffix(task_id) } satisfies WaitAnswer);
}
