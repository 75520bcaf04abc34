import { SvcError } from "../../bus/errors.ts";
import { rewoundMark } from "../../bus/frames/frames.ts";
import { requestMs } from "../../storage/store/store.ts";
import { deleteApprovalsOp } from "../../storage/tables/approvals.ts";
import { dropFilesOfThreadOp } from "../../storage/tables/files.ts";
import { deleteThreadOp } from "../../storage/tables/threads.ts";
import { disownOp, eraseOps, eraseUnowned, isShort, type UnownedLog } from "../../storage/tables/unowned-logs.ts";
import { deleteWaitsOp } from "../../storage/tables/waits.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { holderOf, type ThreadState } from "./thread-state.ts";

/**
 * Deletes the conversation with everything in it (decision 105). It is gone with the first batch; the log of a long one follows in
 * pages, and what a crash leaves of it is deleted later.
 */
export async function eraseThread(
  state: ThreadState,
  _body: unknown,
  { key, bus, discard }: ActorContext<ThreadDeps>,
): Promise<{ deleted: boolean }> {
  const { head, store } = state;
  const run_id = holderOf(state);
  if (run_id !== undefined) throw new SvcError("run_in_progress", { subject: run_id });
  if (head === null) return { deleted: false };
  state.summary?.cancel();
  const { thread_key, next_seq, epoch } = head;
  const log: UnownedLog = { thread_key, events: next_seq, runs: epoch + 1 };
  const first = [
    deleteApprovalsOp(store, key, thread_key),
    deleteWaitsOp(store, thread_key),
    dropFilesOfThreadOp(store, thread_key),
    deleteThreadOp(store, head),
  ];
  try {
    await store.write([...first, ...(isShort(log) ? eraseOps(store, log) : [disownOp(store, log)])], requestMs);
  } finally {
    // Also when it is refused: it may be gone all the same.
    discard();
  }
  if (bus.hasSubscribers(state.topic)) bus.publish(state.topic, rewoundMark);
  if (!isShort(log)) await eraseUnowned(store, log);
  return { deleted: true };
}
