import { taskSuffix } from "../../bus/address.ts";
import type { TaskOutcome } from "../../bus/protocol/run.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { durableRowById } from "./durable-rows.ts";
import { newestRun, type RunAsked, type RunRow, runOfThread, waitingRun } from "./runs.ts";
import { threadBySuffix } from "./threads.ts";
import { type NewWait, openWaitOp, type WaitAnswer } from "./waits.ts";

// A run whose task is put aside waits for it like for any answer. The wait is answered in the batch in which the run of the task ends;
// what has come of it stands in the row of that run.

/** One task, as its wait knows it. */
export interface WaitedTask {
  readonly task_id: string;
  /** The key of the conversation that it belongs to. */
  readonly root_key: number;
}

/** A run of a task that is put aside. */
export interface TaskAside {
  readonly suffix: string;
  readonly run_id: string;
}

/** Who opens a wait for a task waits for who ends the task, and the other way round. */
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
// One in the background goes on without the run above.
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

/** Opens a wait for a task, or for the end of one in the background. It is answered at once when the task is over. */
export function openTaskOps(store: TenantStore, wait: NewWait, task_id: string): WriteOp[] {
  const suffix = taskSuffix(task_id);
  return [
    store.op(lockTask, [suffix]),
    openWaitOp(store, wait),
    store.op(joinTask, [answerText(task_id), wait.wait_id, suffix]),
  ];
}

/** The run of a task has ended, in the same batch: whoever waits for it goes on. */
export function answerTaskOp(store: TenantStore, { task_id, root_key }: WaitedTask): WriteOp {
  return store.op(answerTask, [answerText(task_id), root_key, task_id]);
}

/** The runs that have asked for the end of a background task, which has come. */
export async function waitingForTask(store: TenantStore, { root_key, task_id }: WaitedTask): Promise<TaskAside[]> {
  return (await store.read(selectWaiting, root_key, task_id)) as unknown as TaskAside[];
}

/** The tasks of a run that are put aside and do not go on without it. */
export async function tasksAside(store: TenantStore, rootKey: number, runId: string): Promise<TaskAside[]> {
  const rows = await store.read(selectAside, rootKey, runId);
  return rows.flatMap(({ suffix, run_id, asked }) =>
    (JSON.parse(String(asked)) as RunAsked).parent?.background === undefined
      ? [{ suffix: String(suffix), run_id: String(run_id) }]
      : [],
  );
}

/** Whether a task was handed out by this run, and is not over. */
export async function isTaskOf(store: TenantStore, task_id: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, taskSuffix(task_id));
  const run = thread && (await newestRun(store, thread.thread_key));
  return run?.parent_run_id === runId && run.ended_at === null;
}

/** Whether a run of a conversation is not over. */
export async function isOpenRun(store: TenantStore, suffix: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, suffix);
  const run = thread && (await runOfThread(store, thread.thread_key, runId));
  return run?.ended_at === null;
}

/** Where a task is, by its row: what came of it where it is over, with words of ours where it was cut off. */
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

/** Where a task in the background is, as its conversation is told. */
export interface BesideState {
  readonly manifest: string;
  readonly status: "pending" | "running" | "completed" | "failed" | "expired";
  readonly isOver: boolean;
  /** Its answer, or why there is none; null while it goes on. */
  readonly result: string | null;
}

/** Where a task is that goes on beside a conversation; null for one of another conversation, and for one that its run waits for. */
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

/** Whether a run of a conversation is put aside. */
export async function isWaitingRun(store: TenantStore, suffix: string, runId: string): Promise<boolean> {
  const thread = await threadBySuffix(store, suffix);
  return thread !== undefined && (await waitingRun(store, thread.thread_key))?.run_id === runId;
}

function answerText(task_id: string): string {
  return JSON.stringify({ value: { task_id }, by: taskSuffix(task_id) } satisfies WaitAnswer);
}
