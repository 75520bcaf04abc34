import { splitRunKey, threadAddress, topicOf } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { frame } from "../../bus/frames/frames.ts";
import { livingOwner } from "../../storage/tables/abandoned-runs.ts";
import { isWaitingRun } from "../../storage/tables/task-waits.ts";
import { deleteWaitsOfRunOp } from "../../storage/tables/waits.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import { refuseIfElsewhere } from "../runtime/lives-elsewhere.ts";
import { isPassing } from "./billing/passing.ts";
import type { TaskFamily } from "./context/task-family.ts";
import { answerStored } from "./event-log/waits.ts";
import { screenedMessage } from "./intake/screened-message.ts";
import { offeredTools } from "./intake/single-call.ts";
import { askForSlot } from "./lifecycle/durable.ts";
import { messageModels } from "./lifecycle/entry-models.ts";
import { ownRun, type RunState, whileTaken } from "./lifecycle/own-run.ts";
import { requeueRun } from "./lifecycle/requeue.ts";
import { resumeRun, type WhyResume } from "./lifecycle/resume.ts";
import type { Run } from "./lifecycle/run.ts";
import { startRun } from "./lifecycle/start.ts";
import { requestView } from "./replay/request-view.ts";
import type { PatternDeps } from "./steps/pattern.ts";

// The life of a run, and the files of its parts.
//
// lifecycle/start.ts starts a run in four phases: resolve manifest and caller, open the event log, take in the messages, accept.
// The last phase (lifecycle/accept.ts) writes one batch: the messages, the run row and the claim of the idempotency key. In parallel,
// lifecycle/run.ts runs the pattern until it returns an ending. The last batch (lifecycle/turn-end.ts) and the last frames follow.
// A run that waits for an answer is suspended and leaves memory. lifecycle/resume.ts rebuilds it from its row, its log and its waits.
//
// The parts of a live run share the run context, whose fields are never reassigned (context/run-context.ts). Each agent of a run has one:
//
//   spec       plain data: the request, its caller, the agent and the models
//   step       the state of the agent's steps: number, models, mode of the reply, position of a resumed run
//   branch     the messages of the agent's thread, and the part that the model was shown
//   stream     text, thoughts and frames, for the caller and for the subscribers of the thread
//   eventLog   the durable events: a client of the thread, or an in-memory log for a run without one
//   billing    limits, reservations, usage rows and call records; shared by all agents of the run
//   run        the state of the run: mode, approvals, tasks, reason of an abort; shared too
//   pipeline   the controls around tool calls and replies
//
// An event is durable before a frame reports it. A run never throws: its output gets one result or one refusal, last.

/**
 * One turn: starts, resumes, answers and stops a run. Decision 32: a run without a thread stores none of its text, and ends when its client
 * leaves.
 */
export const runActor = defineActor<"run", RunState, PatternDeps>({
  kind: "run",
  mailboxLimit: 64,
  interleaves: [
    "abort",
    "detach",
    "status",
    "answer",
    "relay",
    "taskResumed",
    "taskAside",
    "taskEnded",
    "alive",
    "request",
    "tools",
    "screen",
  ],
  reserved: ["abort", "detach", "resume", "work", "taskAside", "taskEnded"],
  // For a run without a thread only this actor knows that it was accepted. The state stays for ten seconds, in case the client repeats the
  // request.
  passivateAfterMs: 10_000,
  load: (context, type) => (mayWorkElsewhere(context, type) ? loadHere(context) : newState()),
  // A client may still listen to a suspended run, and only this actor has its stream.
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
        const run =
          state.run ?? (await resumeOnce(state, { due: false, slot: false, stop: reason, task: null }, context));
        // Another message has resumed the run in the meantime.
        if (run === null && state.run !== null) continue;
        if (run === null) return { aborted: false };
        run.abort(reason);
        // The run may have been about to suspend. It is then resumed and aborted again.
        if ((await run.ended) !== "suspended") return { aborted: run.aborted };
      }
    },

    async detach(state, _body, { deps }) {
      while (state.run === null && state.taking !== null) await state.taking;
      state.output = null;
      deps.heardRuns.delete(state);
      state.run?.detach();
    },

    async answer(state, answer, context) {
      const { tenantId, suffix, runId } = splitRunKey(context.key);
      if (suffix === null) return { outcome: state.run?.answer(answer) ?? "over" };
      // The row of a wait identifies it, so a run with a thread needs its id.
      if (!("wait_id" in answer)) return { outcome: "over" };
      const outcome = await answerStored(context.deps.store.tenant(tenantId), runId, answer);
      if (outcome === "accepted") context.bus.tell({ kind: "run", key: context.key }, "resume", { due: false });
      return { outcome };
    },

    async resume(state, { due }, context) {
      const { tenantId, suffix, runId } = splitRunKey(context.key);
      if (suffix !== null) {
        if (state.run === null) await resumeOnce(state, { due, slot: false, stop: null, task: null }, context);
      } else if (state.run !== null) await state.run.look();
      else {
        // The run was lost with its process. Answers to its waits are useless, so the waits are deleted.
        const store = context.deps.store.tenant(tenantId);
        await store.write([deleteWaitsOfRunOp(store, runId)]);
      }
    },

    async work(state, _body, context) {
      if (splitRunKey(context.key).suffix === null || state.run !== null) return { taken: false };
      return { taken: (await resumeOnce(state, { due: true, slot: true, stop: null, task: null }, context)) !== null };
    },

    steer: ({ run }, hint) => run?.steered(hint),

    async taskResumed(state, { task_id }, context) {
      (await taskFamily(state, task_id, context)).resumed(task_id);
      return {};
    },

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
      while (state.run === null && state.taking !== null) await state.taking;
      if (state.run !== null || state.suspended) return { alive: true, runs: state.run !== null };
      const { tenantId, suffix, runId } = splitRunKey(key);
      const isWaiting = suffix !== null && (await isWaitingRun(deps.store.tenant(tenantId), suffix, runId));
      return { alive: isWaiting, runs: false };
    },

    async request(_state, { n, with_bodies }, { key, deps }) {
      const { tenantId, runId } = splitRunKey(key);
      return requestView(deps.store.tenant(tenantId), deps.files, runId, n, with_bodies);
    },

    tools: (_state, asked, { deps }) => offeredTools(asked, deps),
    screen({ run }, asked, { key, deps }) {
      const ownAgent = splitRunKey(key).suffix === null ? (run?.agent ?? null) : null;
      return screenedMessage(asked, ownAgent, (entry) => messageModels(asked, entry, deps), deps);
    },

    status({ run, log }) {
      const since_seq = log?.durableSeq ?? -1;
      if (run === null) return { live: null, since_seq };
      // Text before the caller's messages are durable is published after them, so a new subscriber will receive it.
      return { live: log?.hasBegun === false ? { text: "", truncated: false } : run.liveText, since_seq };
    },
  },
});

function newState(): RunState {
  return {
    slot: -1,
    run: null,
    output: null,
    suspended: false,
    log: null,
    key: null,
    taking: null,
    room: null,
    accepted: null,
    refused: null,
  };
}

/** True for a message to a run that began earlier, if other hosts hold actors: it may still work where its thread was before. */
function mayWorkElsewhere({ key, bus }: ActorContext<PatternDeps>, type: string): boolean {
  return bus.spansHosts && type !== "start" && type !== "requeue" && splitRunKey(key).suffix !== null;
}

async function loadHere(context: ActorContext<PatternDeps>): Promise<RunState> {
  const { key, deps } = context;
  const { tenantId, suffix, runId } = splitRunKey(key);
  const owner = await livingOwner(deps.store.tenant(tenantId), suffix ?? "", runId);
  if (owner !== undefined) await refuseIfElsewhere("run", owner, deps.host, context);
  return newState();
}

/** Resumes a suspended run if it can continue or must be stopped. Concurrent calls wait for each other. */
async function resumeOnce(state: RunState, why: WhyResume, context: ActorContext<PatternDeps>): Promise<Run | null> {
  while (state.taking !== null) await state.taking;
  if (state.run !== null) return state.run;
  return whileTaken(state, resumeAlone(state, why, context));
}

async function resumeAlone(state: RunState, why: WhyResume, context: ActorContext<PatternDeps>): Promise<Run | null> {
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
    // After a transient error of the store or the thread, the run may still continue. Any other refusal is final.
    if (!isPassing(refusal.code)) {
      state.output?.failed(refusal);
      state.output = null;
      context.deps.heardRuns.delete(state);
      state.suspended = false;
    }
    throw error;
  }
}

/** Returns the task family of a run for a task that works again. Resumes a suspended run for it. Refuses with actor_lost. */
async function taskFamily(state: RunState, task: string, context: ActorContext<PatternDeps>): Promise<TaskFamily> {
  for (;;) {
    const run = state.run ?? (await resumeOnce(state, { due: false, slot: false, stop: null, task }, context));
    if (run === null) throw new SvcError("actor_lost");
    const { taskFamily: family } = run;
    if (family !== null) return family;
    // The run was ending or about to suspend.
    await run.ended;
  }
}
