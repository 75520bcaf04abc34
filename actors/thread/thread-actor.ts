import { splitThreadId } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { requestMs } from "../../storage/store/store.ts";
import { deleteEventsOp } from "../../storage/tables/events.ts";
import { deleteWordsOp } from "../../storage/tables/search.ts";
import { deleteThreadOp } from "../../storage/tables/threads.ts";
import { defineActor } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { closeInterrupted } from "./recovery.ts";
import { submitTurn } from "./submit.ts";
import { loadThreadState, type ThreadState } from "./thread-state.ts";

/** Owns one conversation: its log, its live run, and the topic on which others listen. One turn at a time (decision 14). */
export const threadActor = defineActor<"thread", ThreadState, ThreadDeps>({
  kind: "thread",
  mailboxLimit: 256,
  interleaves: ["abort", "attach", "detach"],
  reserved: ["abort", "detach"],
  passivateAfterMs: 30_000,

  async load({ key, deps }) {
    const { tenantId, suffix } = splitThreadId(key);
    const { state, live } = await loadThreadState(deps.store, tenantId, suffix);
    if (live) await closeInterrupted(state, live, deps);
    return state;
  },

  idle: (state) => state.run === null,

  crashed(state, _context, _error) {
    state.replaced = true;
    state.journal?.break(new SvcError("actor_lost"));
    state.run?.abort("worker_lost");
  },

  on: {
    submit: submitTurn,

    async abort(state, { reason }) {
      const { run } = state;
      if (run === null) return { aborted: false };
      run.abort(reason);
      await run.ended;
      return { aborted: run.aborted };
    },

    detach(state, { run_id }) {
      if (state.run?.id === run_id) state.run.detach();
    },

    attach({ committedSeq, run, journal }) {
      if (run === null) return { next_seq: committedSeq, live: null };
      // What is said before the caller's messages are durable is published after them: who comes now will hear it.
      const live = journal?.hasBegun === false ? { ...run.live, text: "", truncated: false } : run.live;
      return { next_seq: committedSeq, live };
    },

    async erase(state, _body, { discard }) {
      const { head, store } = state;
      if (state.run) throw new SvcError("run_in_progress", { subject: state.run.id });
      if (head === null) return { deleted: false };
      const { thread_key } = head;
      // The words first: on SQLite the log says which there are.
      const ops = [
        deleteWordsOp(store, thread_key),
        deleteEventsOp(store, thread_key),
        deleteThreadOp(store, thread_key),
      ];
      try {
        await store.write(ops, requestMs);
      } finally {
        // Also when it is refused: it may be gone all the same.
        discard();
      }
      return { deleted: true };
    },

    recover: () => ({}),
  },
});
