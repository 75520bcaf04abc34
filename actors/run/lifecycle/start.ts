import { durableSuffix, runAddress, splitRunKey, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { outputFor } from "../../../bus/frames/make-output.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import { fromJsonText } from "../../../bus/protocol/json-text.ts";
import type { SubmitTurn, TurnAccepted } from "../../../bus/protocol/run.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import { countInterrupted } from "../../../governance/agent-metrics.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { styledPrompt } from "../../../manifests/sections/output-styles.ts";
import type { DurableAsked, RunRow } from "../../../storage/tables/runs.ts";
import { inCallOrder } from "../../log/branch.ts";
import { askedKey, keyExpiresAt } from "../../log/earlier-answer.ts";
import type { AskedKey, BeginRun, OpenThread } from "../../log/messages.ts";
import { checkRoom } from "../../log/thread-size.ts";
import { toolMessage } from "../../log/tool-outcome.ts";
import type { ContextRoom } from "../../runtime/context-memory.ts";
import type { ActorContext } from "../../runtime/define.ts";
import { taskOutput, tellAside } from "../child-runs/parent-report.ts";
import { beginMode } from "../context/run-mode.ts";
import type { HeardRun } from "../context/suspended-runs.ts";
import { EventLogClient } from "../event-log/log-client.ts";
import type { OpenAsked, RunEventLog } from "../event-log/run-log.ts";
import { claimOps } from "../event-log/settlement.ts";
import { unthreadedLog } from "../event-log/side-log.ts";
import {
  admitCaller,
  admitMaxTokens,
  admitModel,
  admitStops,
  routesThatSee,
  thinkingFor,
} from "../intake/admission.ts";
import { releasedResults } from "../intake/client-results.ts";
import { ephemeralInstructionFor } from "../intake/ephemeral-instruction.ts";
import { findFiles } from "../intake/files.ts";
import { messagesOf, previewOf } from "../intake/first-words.ts";
import { takeMessages } from "../intake/intake.ts";
import { withRecalled } from "../intake/recalled-thoughts.ts";
import { mayRepeat, repeatedTurn } from "../intake/repeated.ts";
import { withManifest } from "../intake/turn-manifest.ts";
import { lastUserMessage, messagesNeeded, turnStartOf } from "../prompt/working-set.ts";
import { newRun } from "../spec/new-run.ts";
import { agentFor } from "../spec/request-tools.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import {
  acceptedBefore,
  acceptedRun,
  beginDurable,
  checkQueue,
  durableAsked,
  joiningOps,
  settleAcceptedOps,
  slotFor,
  tellDue,
  tellLeft,
} from "./durable.ts";
import { Run } from "./run.ts";

// From a request to a live run: who may, whether it was asked before, whether the thread is free, what it says, and then one
// batch that makes the caller's messages durable together with the row of the run and the claim of its key.

/** A run actor's state: empty until its turn is accepted, and after it is over. */
export interface RunState extends HeardRun {
  run: Run | null;
  /** It is being taken up. Never rejects. */
  taking: Promise<void> | null;
  /** To the client that has started it, while it is there. */
  output: RunOutput | null;
  /** The run is put aside. */
  suspended: boolean;
  log: RunEventLog | null;
  key: AskedKey | null;
  /** What the live run holds in memory. */
  room: ContextRoom | null;
  /** What who has asked for the turn was told; null before. */
  accepted: TurnAccepted | null;
}

const started: TurnAccepted = { kind: "started" };

/**
 * Takes a turn, or refuses it before anything was changed. Asked again with the same run id, it answers the same and
 * runs nothing.
 */
export async function startRun(
  state: RunState,
  sent: SubmitTurn,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  if (state.accepted !== null) return state.accepted;
  const room = context.deps.contexts.room(sent.principal.tenant_id);
  state.room = room;
  try {
    return await startIn(room, state, sent, context);
  } finally {
    if (state.run === null) room.leave();
  }
}

async function startIn(
  room: ContextRoom,
  state: RunState,
  sent: SubmitTurn,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  const { deps, env, bus } = context;
  const { tenant_id } = sent.principal;
  const store = deps.store.tenant(tenant_id);
  // What is nearly always there at once is not waited for: each wait of a turn costs as much as a row of its log.
  const named = withManifest(sent, store);
  const turn = named instanceof Promise ? await named : named;
  const admitted = admitCaller(turn, deps);
  const options = turn.options === undefined ? null : fromJsonText(turn.options);
  const agent = agentFor(admitted instanceof Promise ? await admitted : admitted, options);
  const durable = durableAsked(agent, turn, deps.settings);
  // A durable run always has a log; without a conversation it is one that is nobody else's.
  if (durable !== null && turn.thread_suffix === null) return bus.ask(...elsewhere(turn));
  const { bytes = 0 } = turn;
  const waits = room.ask(bytes);
  if (waits !== null) await waits;
  const key = askedKey(turn);
  const link =
    turn.thread_suffix === null
      ? null
      : new EventLogClient(bus, threadAddress(tenant_id, turn.thread_suffix), turn.run_id, env);
  const log = link ?? unthreadedLog(turn, deps.store, env);
  state.log = log;
  state.key = key;
  const compacts = turn.surface === "compact";
  const makeRoom = (loaded: number) => room.ask(bytes + loaded);
  const opened = await log.open({
    idempotency: key,
    needed: compacts ? 1 : messagesNeeded(agent.session),
    withUser: goesOn(turn),
    lease: turn.lease,
    appends: compacts || turn.parent !== undefined ? null : bytes,
    compacts,
    makeRoom,
  });
  if (opened.kind === "earlier") return withWait(opened.accepted, agent);
  if (opened.kind === "busy") throw new SvcError("run_in_progress", { subject: opened.run_id });
  let answer = started;
  if (opened.kind === "open") {
    try {
      const { thread } = opened;
      answer = await begin(
        state,
        withoutAnswered(turn, thread),
        { agent, options, key, log, link, thread, durable, makeRoom },
        context,
      );
    } catch (error) {
      log.release(key);
      throw error;
    }
  } else if (durable !== null) answer = await acceptedBefore(turn, store, waitMs(agent));
  state.accepted = answer;
  return answer;
}

/** The same turn with the log of its own. */
function elsewhere(turn: SubmitTurn) {
  const thread_suffix = durableSuffix(turn.run_id);
  return [
    runAddress(turn.principal.tenant_id, thread_suffix, turn.run_id),
    "start",
    { ...turn, thread_suffix },
  ] as const;
}

/** What is known of a turn when its log is open. */
interface Admitted {
  readonly agent: CompiledAgent;
  /** What its request asks for beside messages; null for nothing. */
  readonly options: TurnOptions | null;
  readonly key: AskedKey | null;
  readonly log: RunEventLog;
  /** The same where it is that of a conversation. */
  readonly link: EventLogClient | null;
  readonly thread: OpenThread;
  /** With what a durable run is accepted; null for a turn that begins at once. */
  readonly durable: DurableAsked | null;
  readonly makeRoom: OpenAsked["makeRoom"];
}

async function begin(
  state: RunState,
  turn: SubmitTurn,
  { agent, options, key, log, link, thread, durable, makeRoom }: Admitted,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  const { deps, env, bus } = context;
  checkFollows(turn, thread);
  const store = deps.store.tenant(turn.principal.tenant_id);
  const admitted = admitModel(turn, agent, deps);
  const compacts = turn.surface === "compact";
  if (compacts) checkCompactable(agent, thread);
  let intake = turn.surface === "continue" || compacts ? null : takeMessages(turn, agent, thread.closing);
  if (intake && intake.droppedParts.length > 0)
    deps.log.warn({ request_id: turn.request_id, parts: intake.droppedParts }, "message parts dropped");
  if (intake && intake.fileIds.length > 0) intake = await findFiles(intake, store, turn.request_id, deps);
  const leftOut = intake === null || intake.droppedParts.length === 0 ? null : { dropped: intake.droppedParts };
  let { closing } = thread;
  if (intake !== null && intake.answers.size + intake.results.size > 0)
    ({ intake, closing } = await releasedResults({ turn, agent, threadId: log.threadId, deps }, closing, intake));
  const repeated =
    intake !== null && mayRepeat(turn, intake, thread)
      ? await repeatedTurn(turn, intake, thread, agent, store, makeRoom)
      : null;
  if (repeated !== null) intake = null;
  // The chain continues in a failed response, and only the same question may continue there.
  else if (turn.response?.follows?.repeats) throw new SvcError("conflict");
  if (intake !== null) intake = await withRecalled(intake, turn.principal.tenant_id, deps);
  const branch = [...(repeated ?? thread).branch];
  const ephemeralInstruction = compacts
    ? wishOf(turn)
    : repeated !== null
      ? repeated.ephemeralInstruction
      : intake === null
        ? await ephemeralInstructionFor(store, thread)
        : null;

  countInterrupted(deps, agent, closing.filter(({ isHanded }) => !isHanded).length);
  if (closing.length > 0) {
    branch.push(...closing.map(toolMessage));
    inCallOrder(branch, branch.length - closing.length);
  }
  const requestStart = branch.length;
  branch.push(...messagesOf(intake?.entries ?? []));
  const userText = intake?.userText ?? null;
  const turnStart = userText === null ? lastUserMessage(branch) : turnStartOf(branch, requestStart);
  const hasImages =
    intake === null || userText === null
      ? branch.slice(turnStart).some(({ attachments }) => attachments)
      : intake.hasImages;
  const routes = hasImages ? routesThatSee(admitted, agent, deps) : admitted;
  admitStops(options, routes, deps);
  const appended = [...closing.map((outcome) => outcome.entry), ...(intake?.entries ?? [])];
  checkRoom(appended, thread.room, deps.settings);
  const startedAt = env.now();
  const { mode, kept, agent: equipped } = beginMode(agent, thread, turn.principal);
  const spec: RunSpec = {
    run_id: turn.run_id,
    request_id: turn.request_id,
    surface: turn.surface,
    principal: turn.principal,
    agent: equipped,
    mode,
    outputStyle: thread.output_style,
    systemPrompt: styledPrompt(agent, thread.output_style),
    routes,
    temperature: turn.temperature ?? agent.model.temperature,
    max_tokens: admitMaxTokens(turn, agent),
    thinking: thinkingFor(agent, thread.thinking_level),
    thread_suffix: turn.thread_suffix,
    branch,
    turnStart,
    ephemeralInstruction,
    parent: turn.parent ?? null,
    isShared: false,
    response: turn.response,
    options,
    trigger: turn.trigger ?? null,
    userText,
    startedAt,
    keyedAs: turn.run_id,
    againOf: repeated?.first_seq ?? null,
    thread_key: thread.thread_key,
    resumed: null,
    durableRun: null,
    queued: thread.queued,
    idempotency: key,
    fromSeq: Math.max(0, thread.next_seq),
  };
  const place = { tenant_id: turn.principal.tenant_id, suffix: turn.thread_suffix ?? "", run_id: turn.run_id };
  const accepting = durable && acceptedRun(place, startedAt + durable.ttl_ms);
  const body = durable && deps.manifests.keep(store, agent);
  const firstBatch = (accepted: BeginRun["accepted"] | null): Omit<BeginRun, "run_id"> => ({
    entries: appended,
    ops: [
      ...claimOps(
        store,
        spec,
        deps.owner,
        link === null ? keyExpiresAt(startedAt + waitMs(agent), deps.settings) : null,
      ),
      ...(accepting ? settleAcceptedOps(store, key, accepting, spec, deps.settings) : []),
      ...(body?.ops ?? []),
      ...joiningOps(store, turn.run_id, turn.parent),
    ],
    run: newRun(spec, deps.owner, durable && { ...durable, ...(body && { body: body.digest }) }),
    manifest: agent.name,
    model_id: routes[0]?.id ?? "",
    preview: previewOf(intake, deps.mask),
    ...(kept !== null && { kept }),
    ...(turn.parent && { parent_session_id: turn.parent.root_thread_id }),
    ...(accepted && { accepted }),
  });
  if (accepting && link !== null) {
    const slot = await slotFor(place, turn, context);
    try {
      if (!slot) await checkQueue(store);
      const row = await accepted(link.begin(firstBatch(slot ? "begun" : "aside")), key);
      body?.kept();
      if (slot && row !== null) ownRun(state, beginDurable(spec, row, place, link, context), link, context);
    } catch (error) {
      if (slot) tellLeft(context);
      throw error;
    }
    if (!slot) {
      state.suspended = true;
      tellDue(place, context);
    }
    const answer = {
      ...({ kind: "accepted", run: accepting, replayed: false, wait_ms: waitMs(agent) } as const),
      ...leftOut,
    };
    return slot ? { ...answer, begun_at: spec.fromSeq } : answer;
  }
  const begun = log.begin(firstBatch(null));
  // A claim may be refused, and then there must not have been a run. Otherwise the model is asked while the disk is written:
  // nothing is shown before the write is acknowledged.
  if (key !== null) await accepted(begun, key);
  state.output = turn.parent
    ? taskOutput(turn.parent, turn.principal.tenant_id, bus)
    : outputFor(turn, bus.channel(turn.channel), agent.name, startedAt, spec.fromSeq);
  const run = new Run(spec, log, state.output, deps);
  ownRun(state, run, log, context);
  await accepted(begun, key, run);
  return leftOut === null ? started : { ...started, ...leftOut };
}

/** How long a client that waits for a durable run may wait: as long as the run may work. */
function waitMs({ limits }: CompiledAgent): number {
  return limits.max_wall_clock_seconds * 1_000;
}

/** The same with how long a client may wait for a durable run. */
function withWait(accepted: TurnAccepted, agent: CompiledAgent): TurnAccepted {
  return accepted.kind === "accepted" ? { ...accepted, wait_ms: waitMs(agent) } : accepted;
}

/** The state follows the run. One that is put aside is looked at once more: somebody may have answered meanwhile. */
export function ownRun(state: RunState, run: Run, log: RunEventLog, context: ActorContext<PatternDeps>): void {
  const { heardRuns } = context.deps;
  heardRuns.delete(state);
  const { room } = state;
  state.run = run;
  state.suspended = false;
  void run.ended.then((exit) => {
    room?.leave();
    state.run = null;
    state.suspended = exit === "suspended";
    const own = { kind: "run", key: context.key } as const;
    if (state.suspended && run.stoppedBy !== null) context.bus.tell(own, "abort", { reason: run.stoppedBy });
    else if (state.suspended) context.bus.tell(own, "resume", { due: false });
    // What a task says to whom it is made anew for the run that goes on.
    if (!state.suspended || run.parent !== null) state.output = null;
    if (state.output !== null) heardRuns.add(state);
    if (state.suspended && run.parent !== null) tellAside(run.parent, splitRunKey(context.key).tenantId, context.bus);
    if (run.isDurable) tellLeft(context);
    if (exit === "lost") log.release(state.key);
    // Whoever asks for it again is answered by its thread, which knows its last run.
    if (exit === "finished" && log.threadId !== "") context.leave();
  });
}

/** Waits for the first batch. */
function accepted(begun: Promise<RunRow | null>, key: AskedKey | null, run?: Run): Promise<RunRow | null> {
  return begun.catch((error: unknown) => {
    run?.abort("worker_lost");
    const refusal = SvcError.from(error);
    if (refusal.code !== "conflict") throw refusal;
    // With a key: it was claimed by the same request on another connection, a moment ago.
    throw new SvcError(key === null ? "conflict" : "idempotency_in_progress");
  });
}

/** Refuses with unknown_thread and compaction_disabled. */
function checkCompactable({ context }: CompiledAgent, { exists }: OpenThread): void {
  if (!exists) throw new SvcError("unknown_thread");
  if (!context.compaction_enabled) throw new SvcError("compaction_disabled");
}

/** What somebody who compacts a conversation asks of the summary. */
function wishOf({ messages }: SubmitTurn): string {
  const content = messages[0]?.content;
  return typeof content === "string" ? content : "";
}

/** A response goes on from the one before it, which something else may have followed meanwhile. Refuses with conflict. */
function checkFollows({ response }: SubmitTurn, { exists, leaf_seq }: OpenThread): void {
  const follows = response?.follows ?? null;
  // The key was released between the first look at it and this one, so the request names no position to continue from.
  if (follows === null && !exists && (response?.previous_response_id ?? null) !== null) throw new SvcError("conflict");
  if (follows === null || (leaf_seq >= follows.first_seq && leaf_seq <= follows.last_seq)) return;
  throw new SvcError("conflict");
}

/** Whether a turn goes on with an earlier one, and has no message of a user. */
function goesOn({ surface, messages }: SubmitTurn): boolean {
  return surface === "continue" || messages.at(-1)?.role === "tool";
}

/** On a thread, the OpenAI entry point says again what was said before. */
function withoutAnswered(turn: SubmitTurn, { exists }: OpenThread): SubmitTurn {
  if (!exists || (turn.surface !== "openai" && turn.surface !== "openai_stream")) return turn;
  const lastAssistant = turn.messages.findLastIndex((message) => message.role === "assistant");
  return { ...turn, messages: turn.messages.slice(lastAssistant + 1) };
}
