import { runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { requestMs } from "../../storage/store/store.ts";
import { interruptedRun } from "../../storage/tables/abandoned-runs.ts";
import { deleteDurablesOp } from "../../storage/tables/durable-rows.ts";
import { deleteModelCallsOp } from "../../storage/tables/model-calls.ts";
import { deleteRunOp, hasRuns, runNumber, waitingRun } from "../../storage/tables/runs.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { FencingToken } from "../log/messages.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import { refuseIfElsewhere } from "../runtime/lives-elsewhere.ts";
import type { ThreadDeps } from "./deps.ts";
import { eraseThread } from "./erase.ts";
import type { EventLogWriter } from "./event-log-writer.ts";
import { forkThread } from "./fork.ts";
import { queueMessage, supersedingOps, takeInputs, takeNote } from "./inputs.ts";
import { endLease, takeLease } from "./lease.ts";
import { addCustom, addRecord, addSummary, labelEvent, nameThread, rateReply } from "./notes.ts";
import { beginRun, dropState, openLog, takeRun } from "./open.ts";
import { pickStyle } from "./output-style.ts";
import { setMode } from "./permission-mode.ts";
import { closeInterrupted, closeLost } from "./recovery.ts";
import { rewindThread } from "./rewind.ts";
import { setThinkingLevel } from "./thinking-level.ts";
import { forgetBranch, loadThreadState, type ThreadState, trimBranch } from "./thread-state.ts";

/** Max time for an aborted run to write its last batch; after that the outcome is unknown. */
const abortMs = 60_000;

/**
 * Owns one thread: its log, the right to write it, and the topic of its subscribers. One turn at a time (decision 14: the actor
 * serializes turns).
 */
export const threadActor = defineActor<"thread", ThreadState, ThreadDeps>({
  kind: "thread",
  mailboxLimit: 256,
  interleaves: ["begin", "append", "take_inputs", "suspend", "take", "end", "release", "abort", "attach"],
  // Writes of a run must be accepted, and in order.
  reserved: ["begin", "append", "take_inputs", "suspend", "take", "end", "release", "abort"],
  passivateAfterMs: 30_000,
  leavesCrowds: true,

  async load(context) {
    const { state, left } = await loadThreadState(context.deps.store, { kind: "thread", key: context.key });
    if (left?.owner_lives) await refuseIfElsewhere("thread", left.owner, context.deps.host, context);
    const { unpublished } = context.deps;
    await unpublished.tell(state);
    if (left === undefined) return state;
    unpublished.note(state);
    await closeInterrupted(state, left, context);
    unpublished.forget(state);
    return state;
  },

  idle: ({ live, opening, summary }) => live === null && opening === null && summary === null,

  crashed(state, { bus }, _error) {
    const { live, tenantId, suffix } = state;
    state.replaced = true;
    state.opening?.close();
    state.summary?.cancel();
    if (live === null) return;
    live.break(new SvcError("actor_lost"));
    bus.tell(runAddress(tenantId, suffix, live.runId), "abort", { reason: "worker_lost" });
  },

  on: {
    open: openLog,
    begin: beginRun,

    append: (state, asked) => writerOf(state, asked).append(asked.entries, asked.ops, asked.kept),

    take_inputs: (state, asked) => takeInputs(state, writerOf(state, asked), asked),

    async suspend(state, asked) {
      await state.queue?.settled();
      const { spent, ops } = asked;
      const position = await writerOf(state, asked).suspend(spent, [...supersedingOps(state), ...ops]);
      state.suspended = (await waitingRun(state.store, state.head?.thread_key ?? -1)) ?? null;
      state.live = null;
      // A wait may last for days, and a resumed run reads its branch itself.
      forgetBranch(state);
      return position;
    },

    take: takeRun,

    async end(state, asked) {
      const { entries, ops, ending, next_seq, unless } = asked;
      if (state.queue !== null && unless !== null) {
        await state.queue.settled();
        if (state.queue.keepsFromEnd(unless)) return { kind: "queued" };
      }
      const writer = writerOf(state, asked);
      const at = state.head?.next_seq ?? next_seq;
      // After a failed batch the run is ahead of the log, and `moved` would repeat for ever.
      if (at !== next_seq && writer.failure === null) return { kind: "moved", next_seq: at };
      const { durable_seq } = await writer.end(entries, ops, ending);
      ended(state);
      return { kind: "ended", durable_seq };
    },

    async release(state, fencingToken, context) {
      const { opening, live } = state;
      if (opening?.runId === fencingToken.run_id) {
        state.opening = null;
        opening.close();
      }
      if (!live?.isOf(fencingToken)) return;
      state.closing = closeRun(state, live, context);
      await state.closing;
    },

    async abort({ live, suspended, tenantId, suffix }, { reason }, { bus }) {
      const run_id = live?.runId ?? suspended?.run_id;
      if (run_id === undefined) return { aborted: false };
      return bus.ask(runAddress(tenantId, suffix, run_id), "abort", { reason }, { deadlineMs: abortMs });
    },

    think: setThinkingLevel,
    style: pickStyle,
    lease: takeLease,
    end_lease: endLease,
    mode: setMode,

    attach: ({ committedSeq, committedLeaf, live, suspended, summary, queue }) => ({
      next_seq: committedSeq,
      leaf_seq: committedLeaf,
      run_id: live?.runId ?? null,
      durable_run: live?.isDurable ? live.runId : suspended?.asked.durable ? suspended.run_id : null,
      summarizing: summary !== null,
      compacting: live?.startedBy?.work === "compaction",
      continuing: live?.startedBy?.work === "continuation",
      queued_steers: queue?.count("steer") ?? 0,
      queued_follow_ups: queue?.count("follow_up") ?? 0,
    }),

    erase: eraseThread,
    fork: forkThread,
    rewind: rewindThread,
    summarized: addSummary,
    name: nameThread,
    label: labelEvent,
    rate: rateReply,
    custom: addCustom,
    record: addRecord,
    steer: queueMessage,
    note: takeNote,

    async forget({ head, store, live, opening, suspended }, { run_key }) {
      const run_id = live?.runId ?? opening?.runId ?? suspended?.run_id;
      if (run_id !== undefined) throw new SvcError("run_in_progress", { subject: run_id });
      if (head === null) return { others: false };
      const number = runNumber(run_key);
      const runs = { from: number, to: number + 1 };
      const ofDurable = deleteDurablesOp(store, head.thread_key, runs);
      const calls = deleteModelCallsOp(store, head.thread_key, runs);
      await store.write([calls, ofDurable, deleteRunOp(store, run_key)], requestMs);
      return { others: await hasRuns(store, head.thread_key) };
    },

    async recover(state, _body, context) {
      if (await breakLost(state)) reload(state, context);
      const row = isAtWork(state) ? undefined : await threadBySuffix(state.store, state.suffix);
      // An unconfirmed batch was applied after the thread was loaded, or another host had the thread since then and may have taken
      // the run that is suspended here. Reload, which suspends or closes the run without an owner.
      if (row !== undefined && row.epoch !== state.head?.epoch && !isAtWork(state)) reload(state, context);
      return {};
    },
  },
});

/** True while a run or a write of this process uses the state. A suspended run does not. */
function isAtWork({ live, opening, closing, noting }: ThreadState): boolean {
  return live !== null || opening !== null || closing !== null || noting !== null;
}

/**
 * Breaks the writer of a live run whose host is gone: after a change of the placement a run may work on another host than its thread.
 * Returns true if it has.
 */
async function breakLost({ live, head, store }: ThreadState): Promise<boolean> {
  if (live === null || head === null) return false;
  const run = await interruptedRun(store, head.thread_key);
  if (run?.run_id !== live.runId || run.owner_lives) return false;
  live.break(new SvcError("actor_lost"));
  await live.written();
  return true;
}

/** Drops the state, and loads it again: that suspends or closes a run without an owner. */
function reload(state: ThreadState, context: ActorContext<ThreadDeps>): void {
  dropState(state, context);
  context.bus.tell({ kind: "thread", key: context.key }, "recover", {});
}

/** Closes a run that vanished without an end, after its batches are written. */
async function closeRun(state: ThreadState, live: EventLogWriter, context: ActorContext<ThreadDeps>): Promise<void> {
  await live.written();
  try {
    if (live.failure === null && (await closeLost(state, context))) return ended(state);
    dropState(state, context, live.failure);
  } catch (error) {
    dropState(state, context, error);
    throw error;
  } finally {
    // The next load closes the run; if none happened, it would stay live until the process restarts, so schedule a check.
    if (state.replaced) context.deps.unconfirmed.note({ kind: "thread", key: context.key });
  }
}

/** Refuses with actor_lost unless the live run has this claim. */
function writerOf({ live }: ThreadState, fencingToken: FencingToken): EventLogWriter {
  if (!live?.isOf(fencingToken)) throw new SvcError("actor_lost");
  return live;
}

function ended(state: ThreadState): void {
  state.lastRunId = state.live?.runId ?? "";
  state.live = null;
  state.closing = null;
  trimBranch(state);
}
