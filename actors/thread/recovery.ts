import type { Env } from "../../bus/env.ts";
import { appendOp } from "../../storage/events.ts";
import { idempotencyKey, releaseKeyOp, settleKeyOp } from "../../storage/idempotency.ts";
import { deleteLiveRunOp, type LiveRun } from "../../storage/live-runs.ts";
import type { WriteOp } from "../../storage/store.ts";
import { progressOp } from "../../storage/threads.ts";
import { interruptedEntry } from "../run/endings.ts";
import { interruptedFrame, type StreamAnswer } from "../run/idempotency.ts";
import { appendToHead } from "./thread-log.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Closes a run that a crash has cut off: the log says so, the mark is taken away, its idempotency key is settled, and the thread
 * is free. Called while the thread is loaded, when no run of this process can be live on it.
 */
export async function closeInterrupted(state: ThreadState, live: LiveRun, env: Env): Promise<void> {
  const { store, head } = state;
  if (head === null) return;
  const next = appendToHead(head, interruptedEntry(live.run_id, "crash"), env.now());
  await store.write([
    deleteLiveRunOp(store, head.thread_key),
    appendOp(store, head.thread_key, next.event),
    progressOp(store, next.head),
    ...(await settleInterrupted(state, live, next.head.next_seq, env.now())),
  ]);
  state.head = next.head;
  state.committedSeq = next.head.next_seq;
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
