import { splitRunKey, threadAddress, topicOf } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { frame } from "../../bus/frames/frames.ts";
import { isWaitingRun } from "../../storage/tables/task-waits.ts";
import { deleteWaitsOfRunOp } from "../../storage/tables/waits.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import { isPassing } from "./billing/passing.ts";
import type { TaskFamily } from "./context/task-family.ts";
import { answerStored } from "./event-log/waits.ts";
import { askForSlot } from "./lifecycle/durable.ts";
import { ownRun, type RunState } from "./lifecycle/own-run.ts";
import { requeueRun } from "./lifecycle/requeue.ts";
import { resumeRun, type WhyResume } from "./lifecycle/resume.ts";
import type { Run } from "./lifecycle/run.ts";
import { startRun } from "./lifecycle/start.ts";
import { requestView } from "./replay/request-view.ts";
import type { PatternDeps } from "./steps/pattern.ts";

// The life of a run, and where its parts are.
//
// lifecycle/start.ts starts it in four phases: resolve the manifest and the caller, open the event log, take in the messages, accept. The
// last phase (lifecycle/accept.ts) writes one batch: the messages, the row of the run and the claim of the key. lifecycle/run.ts runs the
// turn beside that batch: its pattern until there is an ending, then the last batch (lifecycle/turn-end.ts), then the last frames. A run that
// waits for an answer is suspended and leaves memory; lifecycle/resume.ts builds it again from its row, its log and its waits.
//
// What the parts of a live run share is the run context, which is never changed (context/run-context.ts). Each agent of the run has one:
//
//   spec       plain data: what was asked for, by whom, with which agent and models
//   step       the state of the agent's steps: number, models, mode of the reply, where a resumed run begins
//   branch     the conversation as the agent sees it, and what the model was shown of it
//   stream     text, thoughts and frames, for the caller and for the listeners of the thread
//   eventLog   what must not be lost: a client of the thread, or in memory for a run without one
//   billing    limits, reservations, usage rows and call records; shared by all agents of the run
//   run        the state of the run: mode, approvals, tasks, why it was stopped; shared too
//   pipeline   the controls around tool calls and replies
//
// An event is durable before a frame reports it. A run never throws: its output gets one result or one refusal, last.

/**
 * One turn: it starts, resumes, answers and stops a run. A run without a thread keeps nothing of its words, and ends when its client leaves
 * (decision 32).
 */
export const runActor = defineActor<"run", RunState, PatternDeps>({
  kind: "run",
  mailboxLimit: 64,
  interleaves: [
    "abort",
    "detach",
    "status",
    "answer",
    "reserve",
    "repay",
    "count",
    "share",
    "relay",
    "taskAside",
    "taskEnded",
    "alive",
    "request",
  ],
  reserved: ["abort", "detach", "resume", "work", "repay", "taskAside", "taskEnded"],
  // Of one without a thread nobody else knows that it was accepted, when it is sent again.
  passivateAfterMs: 10_000,
  load: () => ({
    slot: -1,
    run: null,
    output: null,
    suspended: false,
    log: null,
    key: null,
    taking: null,
    room: null,
    accepted: null,
  }),
  // Whoever has started a run that waits may still listen, and then its stream is known here only.
  idle: ({ run, suspended, output }) => run === null && !(suspended && output !== null),

  crashed(state, { deps }) {
    const { run, log, key } = state;
    deps.heardRuns.delete(state);
    const release = () => log?.release(key);
    if (run === null) release();
    else run.crashed(release);
  },

  on: {
    start: startRun,
    requeue: (state, { of }, context) => requeueRun(state, of, context),

    async abort(state, { reason }, context) {
      for (;;) {
        const run = state.run ?? (await takeUp(state, { due: false, slot: false, stop: reason, task: null }, context));
        // Somebody else has taken it up meanwhile.
        if (run === null && state.run !== null) continue;
        if (run === null) return { aborted: false };
        run.abort(reason);
        // It may have been on its way out, to be put aside.
        if ((await run.ended) !== "suspended") return { aborted: run.aborted };
      }
    },

    detach(state, _body, { deps }) {
      state.output = null;
      deps.heardRuns.delete(state);
      state.run?.detach();
    },

    async answer(state, answer, context) {
      const { tenantId, suffix, runId } = splitRunKey(context.key);
      if (suffix === null) return { outcome: state.run?.answer(answer) ?? "over" };
      // Of a thread the row says which wait it is.
      if (!("wait_id" in answer)) return { outcome: "over" };
      const outcome = await answerStored(context.deps.store.tenant(tenantId), runId, answer);
      if (outcome === "accepted") context.bus.tell({ kind: "run", key: context.key }, "resume", { due: false });
      return { outcome };
    },

    async resume(state, { due }, context) {
      const { tenantId, suffix, runId } = splitRunKey(context.key);
      if (suffix !== null) {
        if (state.run === null) await takeUp(state, { due, slot: false, stop: null, task: null }, context);
      } else if (state.run !== null) await state.run.look();
      else {
        // It was lost with its process, and nobody will take up what it has asked.
        const store = context.deps.store.tenant(tenantId);
        await store.write([deleteWaitsOfRunOp(store, runId)]);
      }
    },

    async work(state, _body, context) {
      if (splitRunKey(context.key).suffix === null || state.run !== null) return { taken: false };
      return { taken: (await takeUp(state, { due: true, slot: true, stop: null, task: null }, context)) !== null };
    },

    steer: ({ run }, hint) => run?.steered(hint),

    reserve: async (state, asked, context) => (await taskFamily(state, asked.task_id, context)).reserve(asked),
    repay({ run }, { reservation_id, used }, { deps }) {
      if (run !== null) run.repay(reservation_id, used);
      // Its actor has crashed, and it is on its way out. No two reservations have one name.
      else for (const live of deps.liveRuns) live.repay?.(reservation_id, used);
    },
    count: async (state, { task_id, tool }, context) => ({
      breach: await (await taskFamily(state, task_id, context)).count(task_id, tool),
    }),

    share: async (state, { task_id }, context) => (await taskFamily(state, task_id, context)).share(task_id),

    relay({ run, output, log }, { name, data }, { key, bus }) {
      if (run !== null) return run.relay(name, data);
      const { tenantId, suffix } = splitRunKey(key);
      const id = log?.durableSeq ?? -1;
      output?.frame(name, data, id);
      if (suffix !== null) bus.publish(topicOf(threadAddress(tenantId, suffix)), frame(name, data, id));
    },

    taskAside: ({ run }, { task_id }) => run?.tasks?.aside(task_id),

    taskEnded({ run }, { task_id, outcome }, { key, bus }) {
      if (run === null) bus.tell({ kind: "run", key }, "resume", { due: false });
      else run.tasks?.ended(task_id, outcome);
      return {};
    },

    async alive(state, _body, { key, deps }) {
      while (state.taking !== null) await state.taking;
      if (state.run !== null || state.suspended) return { alive: true, runs: state.run !== null };
      const { tenantId, suffix, runId } = splitRunKey(key);
      const isWaiting = suffix !== null && (await isWaitingRun(deps.store.tenant(tenantId), suffix, runId));
      return { alive: isWaiting, runs: false };
    },

    async request(_state, { n, with_bodies }, { key, deps }) {
      const { tenantId, runId } = splitRunKey(key);
      return requestView(deps.store.tenant(tenantId), deps.files, runId, n, with_bodies);
    },

    status({ run, log }) {
      const since_seq = log?.durableSeq ?? -1;
      if (run === null) return { live: null, since_seq };
      // What is said before the caller's messages are durable is published after them: who comes now will hear it.
      return { live: log?.hasBegun === false ? { text: "", truncated: false } : run.liveText, since_seq };
    },
  },
});

/** Makes a run that was put aside a live one, if it has anything to go on with or is to be stopped. */
async function takeUp(state: RunState, why: WhyResume, context: ActorContext<PatternDeps>): Promise<Run | null> {
  while (state.taking !== null) await state.taking;
  if (state.run !== null) return state.run;
  const taken = takeUpAlone(state, why, context);
  state.taking = taken.then(
    () => {},
    () => {},
  );
  try {
    return await taken;
  } finally {
    state.taking = null;
  }
}

async function takeUpAlone(state: RunState, why: WhyResume, context: ActorContext<PatternDeps>): Promise<Run | null> {
  const { tenantId, suffix, runId } = splitRunKey(context.key);
  if (suffix === null) return null;
  const place = { tenant_id: tenantId, suffix, run_id: runId };
  try {
    const taken = await context.deps.resumes.run(() => resumeRun(place, state.output, why, context));
    if (taken === "needs_slot") await askForSlot(place, context);
    if (taken === null || taken === "needs_slot") return null;
    const { run, log, spec, room } = taken;
    state.room = room;
    state.log = log;
    state.key = spec.idempotency;
    state.accepted ??= { kind: "started" };
    ownRun(state, run, log, context);
    return run;
  } catch (error) {
    const refusal = SvcError.from(error);
    // Nobody knows yet whether it goes on when the store or its thread was away; any other refusal is its end.
    if (!isPassing(refusal.code)) {
      state.output?.failed(refusal);
      state.output = null;
      context.deps.heardRuns.delete(state);
      state.suspended = false;
    }
    throw error;
  }
}

/** The tasks of a run of which one wants to use something. One that was put aside is taken up for it. Refuses with actor_lost. */
async function taskFamily(state: RunState, task: string, context: ActorContext<PatternDeps>): Promise<TaskFamily> {
  for (;;) {
    const run = state.run ?? (await takeUp(state, { due: false, slot: false, stop: null, task }, context));
    if (run === null) throw new SvcError("actor_lost");
    const { taskFamily: family } = run;
    if (family !== null) return family;
    // It was on its way out, maybe to be put aside.
    await run.ended;
  }
}
