import { durableAddress, isTaskSuffix, runAddress, splitThreadId, taskIdOf } from "../../bus/address.ts";
import { publishStatus } from "../../bus/frames/run-status.ts";
import { splitNodeId } from "../../bus/protocol/node-id.ts";
import { countInterrupted } from "../../governance/agent-metrics.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { type InterruptedRun, interruptedRun, suspendRunOp } from "../../storage/tables/abandoned-runs.ts";
import { endTasksOps } from "../../storage/tables/abandoned-waits.ts";
import { abandonOps } from "../../storage/tables/approvals.ts";
import { durableRowById, loseDurableOp } from "../../storage/tables/durable-rows.ts";
import { appendOp, eventsMax } from "../../storage/tables/events.ts";
import { idempotencyKey, releaseKeyOp, settleKeyOp } from "../../storage/tables/idempotency.ts";
import { leaveBudgetOps, resetShareOps } from "../../storage/tables/run-budgets.ts";
import { endRunOp, runNumber, waitingRun } from "../../storage/tables/runs.ts";
import { answerTaskOp, tasksAside } from "../../storage/tables/task-waits.ts";
import { progressOp, takeThreadOp, threadBySuffix } from "../../storage/tables/threads.ts";
import { closeWaitsOp, noThread, waitsOfRun } from "../../storage/tables/waits.ts";
import { interruptedFrame, keyExpiresAt, type StreamAnswer } from "../log/earlier-answer.ts";
import { interruptedEntry, withOrigin } from "../log/entry.ts";
import { lostBackOffMs } from "../log/lost-steps.ts";
import { closeOpenCalls, closeSubAgentCalls } from "../log/open-calls.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { publishEvents } from "./event-log-writer.ts";
import { appendAll } from "./log-state.ts";
import { forgetBranch, type ThreadState } from "./thread-state.ts";

/** Closes a run that vanished without an end while its thread is in memory. Returns false if the store has no live run. */
export async function closeLost(state: ThreadState, context: ActorContext<ThreadDeps>): Promise<boolean> {
  const left = state.head === null ? undefined : await interruptedRun(state.store, state.head.thread_key);
  if (left) await closeInterrupted(state, left, context);
  return left !== undefined;
}

/**
 * Suspends an interrupted durable run; steps in the log are not repeated. Takes the thread from a previous owner and keeps it
 * for the run.
 */
async function suspendLost(
  state: ThreadState,
  left: InterruptedRun,
  { deps, env, bus }: ActorContext<ThreadDeps>,
): Promise<void> {
  const { store, head, tenantId, suffix } = state;
  if (head === null) return;
  const taken = { ...head, epoch: head.epoch + 1 };
  const take = takeThreadOp(store, head, taken.epoch);
  const before = await durableRowById(store, left.run_id);
  const ms = lostBackOffMs(before?.lost ?? 0);
  // Release its reservations at once, because the run may resume much later and then wait for an answer first.
  const freed = resetShareOps(store, left.run_id, env.now());
  await store.write([suspendRunOp(store, left), loseDurableOp(store, left.run_id, ms), take, ...freed]);
  deps.metrics.count("svc_durable_lost_claims_total", {});
  state.head = taken;
  state.suspended = (await waitingRun(store, head.thread_key)) ?? null;
  forgetBranch(state);
  const status = {
    run_id: left.run_id,
    status: "waiting",
    attempt: 0,
    step: state.suspended?.spent?.step ?? 0,
  } as const;
  publishStatus(bus, state.topic, { ...status, waiting_on: null, updated_at: env.now() });
  const node = bus.workNodeOf(runAddress(tenantId, suffix, left.run_id));
  if (ms === 0 && node !== null)
    bus.tell(durableAddress(splitNodeId(node).host), "wake", { tenant_id: tenantId, suffix, run_id: left.run_id });
}

/**
 * Closes a run that a crash interrupted: its calls get results, the log and its row record the interruption, and its idempotency
 * key is settled. The thread is then free, and a previous owner can no longer write.
 */
export async function closeInterrupted(
  state: ThreadState,
  left: InterruptedRun,
  context: ActorContext<ThreadDeps>,
): Promise<void> {
  const { store } = state;
  const { head: before } = state;
  if (before === null) return;
  if (left.durable) return suspendLost(state, left, context);
  const { deps, env, bus } = context;
  const { thread_key, manifest, epoch } = before;
  const outcomes = await closeOpenCalls(store, thread_key, before, { mask: deps.mask });
  const ofSubAgents = await closeSubAgentCalls(store, thread_key, before, deps.mask);
  const closing = [...ofSubAgents, ...outcomes.map(({ entry }) => entry)];
  const written = [...closing, interruptedEntry(left.run_id, "crash")];
  const entries = left.idempotency_scope === null ? written : written.map((entry) => withOrigin(entry, left.run_id));
  // A full log must be freed too, so drop what does not fit.
  const room = entries.slice(0, eventsMax - before.next_seq);
  const { head, events } = appendAll({ ...before, epoch: epoch + 1 }, room, env.now());
  const number = runNumber(left.run_key);
  const rootKey = await rootOf(state);
  // The parent of a task reads that it was interrupted.
  const task_id = taskIdOf(state.suffix);
  const tasks = await tasksAside(store, rootKey, left.run_id);
  await store.write([
    endOp(store, left, head.next_seq - 1, env.now()),
    ...abandonOps(store, await waitsOfRun(store, left.run_id)),
    closeWaitsOp(store, left.run_id),
    ...(await endTasksOps(store, rootKey, tasks)),
    ...events.map((event) => appendOp(store, thread_key, event, number)),
    progressOp(store, before, head),
    ...(await settleInterrupted(state, left, head.next_seq, context)),
    ...(task_id === null ? [] : [answerTaskOp(store, { task_id, root_key: rootKey })]),
    ...leaveBudgetOps(store, left.run_id),
  ]);
  // Abort its tasks, because no run waits for them.
  for (const { suffix, run_id } of tasks)
    bus.tell(runAddress(state.tenantId, suffix, run_id), "abort", { reason: "worker_lost" });
  state.head = head;
  state.committedSeq = head.next_seq;
  state.committedLeaf = head.leaf_seq;
  state.recent?.push(...events);
  publishEvents(bus, state, events);
  if (closing.length === 0 || manifest === null) return;
  // The agent may be deleted; then there is no metric to count.
  const agent = await deps.manifests.resolve(store.tenantId, manifest, state.suffix).catch(() => null);
  if (agent) countInterrupted(deps, agent, closing.length);
}

/** Returns the key of the root thread: for a task that of its parent, otherwise its own. */
async function rootOf({ head, store, suffix }: ThreadState): Promise<number> {
  const root = isTaskSuffix(suffix) ? head?.parent_session_id : null;
  const thread = root ? await threadBySuffix(store, splitThreadId(root).suffix) : head;
  return thread?.thread_key ?? noThread;
}

/** Returns the statement that ends the run, at most once. */
function endOp(store: TenantStore, { run_key, epoch }: InterruptedRun, last_seq: number, ended_at: number): WriteOp {
  const ending = { status: "failed", stop_reason: null, error: "interrupted", usage: null } as const;
  return endRunOp(store, { run_key, epoch }, { ...ending, ended_at, last_seq });
}

/** Settles the idempotency key: a stream can be replayed as far as it got; a JSON request without a reply may be repeated. */
async function settleInterrupted(
  state: ThreadState,
  left: InterruptedRun,
  toSeq: number,
  { env, deps }: ActorContext<ThreadDeps>,
): Promise<WriteOp[]> {
  const scope = left.idempotency_scope;
  if (scope === null) return [];
  const row = await idempotencyKey(state.store, scope, env.now());
  if (!row || row.run_id !== left.run_id || row.answer === null) return [];
  if (!scope.startsWith('["stream"')) return [releaseKeyOp(state.store, scope, left.run_id)];
  const provisional = JSON.parse(row.answer) as StreamAnswer;
  const answer: StreamAnswer = { from_seq: provisional.from_seq, to_seq: toSeq, error: interruptedFrame };
  const expiresAt = keyExpiresAt(env.now(), deps.settings);
  return [settleKeyOp(state.store, scope, left.run_id, JSON.stringify(answer), expiresAt)];
}
