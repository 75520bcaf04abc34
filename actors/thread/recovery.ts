import type { WriteOp } from "../../storage/store/store.ts";
import { appendOp, eventsMax } from "../../storage/tables/events.ts";
import { idempotencyKey, releaseKeyOp, settleKeyOp } from "../../storage/tables/idempotency.ts";
import { deleteLiveRunOp, type LiveRun } from "../../storage/tables/live-runs.ts";
import { progressOp } from "../../storage/tables/threads.ts";
import { countInterrupted } from "../run/agent-metrics.ts";
import type { RunDeps } from "../run/deps.ts";
import { interruptedEntry } from "../run/endings.ts";
import { interruptedFrame, type StreamAnswer } from "../run/idempotency.ts";
import { closeOpenCalls } from "./open-calls.ts";
import { appendAll } from "./thread-log.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Closes a run that a crash has cut off: each of its calls gets a result, the log says that it was interrupted, the mark is taken
 * away, its idempotency key is settled, and the thread is free. Called while the thread is loaded, when no run of this process
 * can be live on it.
 */
export async function closeInterrupted(state: ThreadState, live: LiveRun, deps: RunDeps): Promise<void> {
  const { store } = state;
  const { env } = deps;
  if (state.head === null) return;
  const { thread_key, leaf_seq, manifest } = state.head;
  const origin = live.idempotency_scope === null ? null : live.run_id;
  const closing = await closeOpenCalls(store, thread_key, leaf_seq, origin);
  const entries = [...closing.map((outcome) => outcome.entry), interruptedEntry(live.run_id, "crash")];
  // A log that is full is freed all the same.
  const { head, events } = appendAll(state.head, entries.slice(0, eventsMax - state.head.next_seq), env.now());
  await store.write([
    deleteLiveRunOp(store, thread_key),
    ...events.map((event) => appendOp(store, thread_key, event)),
    progressOp(store, head),
    ...(await settleInterrupted(state, live, head.next_seq, env.now())),
  ]);
  state.head = head;
  state.committedSeq = head.next_seq;
  if (closing.length === 0 || manifest === null) return;
  // Its agent may be gone; then nobody is there to count for.
  const agent = await deps.manifests.resolve(store.tenantId, manifest, state.suffix).catch(() => null);
  if (agent) countInterrupted(deps, agent, closing.length);
}

/** A stream can be replayed as far as it got; a JSON answer was never given, so its request may be sent again. */
async function settleInterrupted(state: ThreadState, live: LiveRun, toSeq: number, now: number): Promise<WriteOp[]> {
  const scope = live.idempotency_scope;
  if (scope === null) return [];
  const row = await idempotencyKey(state.store, scope, now);
  if (!row || row.run_id !== live.run_id || row.answer === null) return [];
  if (!scope.startsWith('["stream"')) return [releaseKeyOp(state.store, scope, live.run_id)];
  const provisional = JSON.parse(row.answer) as StreamAnswer;
  const answer: StreamAnswer = { from_seq: provisional.from_seq, to_seq: toSeq, error: interruptedFrame };
  return [settleKeyOp(state.store, scope, live.run_id, JSON.stringify(answer))];
}
