import { runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { requestMs } from "../../storage/store/store.ts";
import { deleteDurablesOp } from "../../storage/tables/durable-rows.ts";
import { deleteModelCallsOp } from "../../storage/tables/model-calls.ts";
import { deleteRunOp, hasRuns, runNumber, waitingRun } from "../../storage/tables/runs.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import type { FencingToken } from "../log/messages.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { eraseThread } from "./erase.ts";
import { forkThread } from "./fork.ts";
import { queueMessage, supersedingOps, takeInputs, takeNote } from "./inputs.ts";
import { endLease, takeLease } from "./lease.ts";
import type { EventLogWriter } from "./log-writer.ts";
import { addCustom, addSummary, labelEvent, nameThread, rateReply } from "./notes.ts";
import { beginRun, dropState, openLog, takeRun } from "./open.ts";
import { pickStyle } from "./output-style.ts";
import { setMode } from "./permission-mode.ts";
import { closeInterrupted, closeLost } from "./recovery.ts";
import { rewindThread } from "./rewind.ts";
import { setThinkingLevel } from "./thinking-level.ts";
import { forgetBranch, holderOf, loadThreadState, type ThreadState, trimBranch } from "./thread-state.ts";

/** How long a run that is being stopped gets to write its last batch, before who stops it is told that nobody knows. */
const abortMs = 60_000;

/** Owns one conversation: its log, who may write it, and the topic on which others listen. One turn at a time (decision 14). */
export const threadActor = defineActor<"thread", ThreadState, ThreadDeps>({
  kind: "thread",
  mailboxLimit: 256,
  interleaves: ["begin", "append", "take_inputs", "suspend", "take", "end", "release", "abort", "attach"],
  // What a run writes must get in, and in its order.
  reserved: ["begin", "append", "take_inputs", "suspend", "take", "end", "release", "abort"],
  passivateAfterMs: 30_000,
  leavesCrowds: true,

  async load(context) {
    const { state, left } = await loadThreadState(context.deps.store, { kind: "thread", key: context.key });
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
      // A wait may last for days, and the run that is taken up reads its branch itself.
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
      // Behind a batch that was refused the run has sent more than is written: asked again it would be asked for ever.
      if (at !== next_seq && !writer.broken) return { kind: "moved", next_seq: at };
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
      compacting: live?.surface === "compact",
      continuing: live?.surface === "continue",
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
      const isOwned = holderOf(state) !== undefined || state.closing !== null || state.noting !== null;
      const row = isOwned ? undefined : await threadBySuffix(state.store, state.suffix);
      // What was not answered was applied after the thread was loaded: a run that is nobody's is put aside, or closed, as it is loaded again.
      if (row !== undefined && row.epoch !== state.head?.epoch && holderOf(state) === undefined) {
        dropState(state, context);
        context.bus.tell({ kind: "thread", key: context.key }, "recover", {});
      }
      return {};
    },
  },
});

/** Closes a run that is gone without an end, when what it has sent is written. */
async function closeRun(state: ThreadState, live: EventLogWriter, context: ActorContext<ThreadDeps>): Promise<void> {
  await live.written();
  try {
    if (!live.broken && (await closeLost(state, context))) return ended(state);
    dropState(state, context);
  } catch (error) {
    dropState(state, context);
    throw error;
  } finally {
    // Who loads the thread next closes the run, and where nobody does it would be a live one until the process starts anew.
    if (state.replaced) context.deps.unconfirmed.note({ kind: "thread", key: context.key });
  }
}

/** Refuses with actor_lost when another run, or none, is the live one, or the same under a later fencing token. */
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
