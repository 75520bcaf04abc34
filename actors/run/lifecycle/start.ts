import { durableSuffix, runAddress, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import { fromJsonText } from "../../../bus/protocol/json-text.ts";
import type { SubmitTurn, TurnAccepted } from "../../../bus/protocol/run.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import type { DurableAsked } from "../../../storage/tables/run-columns.ts";
import { askedKey } from "../../log/earlier-answer.ts";
import type { OpenThread } from "../../log/messages.ts";
import type { ActorContext } from "../../runtime/define.ts";
import type { OpenAsked } from "../event-log/event-log.ts";
import { EventLogClient } from "../event-log/event-log-client.ts";
import { unthreadedLog } from "../event-log/side-log.ts";
import { admitCaller, durableAsked, withManifest } from "../intake/admission.ts";
import { pinOf } from "../intake/manifest-pin.ts";
import { admitFirstCall, spendingOf } from "../intake/spend-admission.ts";
import { takeIn } from "../intake/take-in.ts";
import { messagesNeeded } from "../prompt/working-set.ts";
import { agentFor, hasChosen, noChosen } from "../spec/request-tools.ts";
import type { PatternDeps } from "../steps/pattern.ts";
import { acceptDurableRun, acceptRun, started, waitMs } from "./accept.ts";
import { acceptedBefore } from "./durable.ts";
import { EntryModels } from "./entry-models.ts";
import { type RunState, whileTaken } from "./own-run.ts";

/**
 * Starts a run, or refuses it before anything has changed. Repeated with the same run id, it returns the same answer and starts
 * nothing.
 *
 * 1. Resolve: find the manifest and check the caller.
 * 2. Open: ask the thread for its log. The thread answers a known Idempotency-Key, and refuses a second live run.
 * 3. Take in: turn the caller's messages into log entries, and the branch into the run spec.
 * 4. Accept: store the messages, the run row and the claim of the key in one batch. The run starts at the same time, unless it
 *    has a key to claim or tool sources to open.
 */
export async function startRun(
  state: RunState,
  sent: SubmitTurn,
  context: ActorContext<PatternDeps>,
): Promise<TurnAccepted> {
  if (state.accepted !== null) return state.accepted;
  if (state.refused !== null) throw state.refused;
  const { deps, bus, env } = context;
  const room = deps.contexts.room(sent.principal.tenant_id);
  state.room = room;
  try {
    const resolved = await resolve(sent, context);
    const { turn, agent, durable, store } = resolved;
    if (deps.freezes.pending !== null) await deps.freezes.pending;
    deps.freezes.refuseRun(store.tenantId, turn.principal.sub, agent.name);
    // A durable run needs a log. Without a conversation it gets a thread of its own.
    if (durable !== null && turn.thread_suffix === null) return await bus.ask(...onOwnThread(turn));

    const { bytes = 0 } = turn;
    const waits = room.ask(bytes);
    if (waits !== null) await waits;
    const makeRoom = (loaded: number) => room.ask(bytes + loaded);
    const key = askedKey(turn);
    const client = turn.thread_suffix === null ? null : clientOf(turn, turn.thread_suffix, context);
    const log = client ?? unthreadedLog(turn, deps.store, env);
    state.log = log;
    state.key = key;
    const opened = await log.open({ ...openedWith(turn, agent), idempotency: key, makeRoom });
    if (opened.kind === "earlier") return withWait(opened.accepted, agent);
    if (opened.kind === "busy") throw new SvcError("run_in_progress", { subject: opened.run_id });
    if (opened.kind !== "open") {
      state.accepted = durable === null ? started : await acceptedBefore(turn, store, waitMs(agent));
      return state.accepted;
    }

    const { thread } = opened;
    let models: EntryModels | null = null;
    try {
      const answered = withoutAnswered(turn, thread);
      const pinning = await pinningOf(turn, agent, thread, store, env);
      const standings = await spendingOf(turn, agent, store, deps);
      const open = { ...resolved, turn: answered, key, threadId: log.threadId, thread, pinning, makeRoom };
      // The prompt of a task is the text of an agent, whose budget the task shares.
      models = turn.parent === undefined ? new EntryModels(open, log, deps) : null;
      const taken = await takeIn(open, deps, models).finally(() => models?.settle());
      if (standings !== null) admitFirstCall(standings, taken.start, env.now());

      const accepting =
        durable !== null && client !== null
          ? acceptDurableRun(state, open, taken, client, durable, context)
          : acceptRun(state, open, taken, log, context);
      state.accepted = await whileTaken(state, accepting);
      return state.accepted;
    } catch (error) {
      log.release(key);
      if (models?.spent) state.refused = SvcError.from(error);
      throw error;
    }
  } finally {
    if (state.run === null) room.leave();
  }
}

/** A turn with its compiled agent, before its log is opened. */
interface ResolvedTurn {
  readonly turn: SubmitTurn;
  readonly agent: CompiledAgent;
  /** Options of the OpenAI protocol; null where the request has none. */
  readonly options: TurnOptions | null;
  /** How a durable run is accepted; null for a run that starts at once. */
  readonly durable: DurableAsked | null;
  readonly store: TenantStore;
}

/** Finds the manifest and admits the caller. */
async function resolve(sent: SubmitTurn, { deps }: ActorContext<PatternDeps>): Promise<ResolvedTurn> {
  const store = deps.store.tenant(sent.principal.tenant_id);
  checkThread(sent, deps.settings);
  // Both values are usually there at once. Awaiting them anyway would cost as much as one row of the log.
  const named = withManifest(sent, store);
  const turn = named instanceof Promise ? await named : named;
  const admitted = admitCaller(turn, deps);
  const options = turn.options === undefined ? null : fromJsonText(turn.options);
  const own = admitted instanceof Promise ? await admitted : admitted;
  const agent = options === null ? own : agentFor(own, options);
  if (options !== null && !hasChosen(agent, options) && !(await finds(agent, options, turn, deps)))
    throw noChosen(options);
  const kept = agent.memory.keepsLog || turn.parent !== undefined ? turn : withoutLog(turn);
  return { turn: kept, agent, options, durable: durableAsked(agent, kept, deps.settings), store };
}

/** Refuses with invalid_thread_id a turn on a thread of another entry point. */
function checkThread(
  { surface, thread_suffix: suffix, parent }: SubmitTurn,
  { entryPoints }: Pick<Settings, "entryPoints">,
): void {
  if (suffix === null || parent !== undefined || entryPoints.length === 0) return;
  const isTaken = entryPoints.some(
    (rules) => rules.surface !== surface && rules.threads.some((prefix) => suffix.startsWith(prefix)),
  );
  if (isTaken)
    throw new SvcError("invalid_thread_id", {
      message: "Only the service that makes this thread may start a turn on it.",
    });
}

/** Returns the turn as one without a thread, for an agent with `spec.memory.checkpointer: none`. */
function withoutLog(turn: SubmitTurn): SubmitTurn {
  if (entryPointOf(turn.surface).work !== "turn") throw new SvcError("unknown_thread");
  return { ...turn, thread_suffix: null };
}

/** True if the tool that a caller chooses is one that a source of tools finds. The run finds the source open. */
async function finds(
  agent: CompiledAgent,
  options: TurnOptions,
  { principal, parent }: SubmitTurn,
  { toolSets }: PatternDeps,
): Promise<boolean> {
  const above = parent?.allow_hosts ?? [];
  const opened = await toolSets.opening(agent, principal.tenant_id, { above })?.();
  opened?.close();
  return opened !== undefined && hasChosen(opened.agent, options);
}

/** Returns the message that starts the same turn on a new thread. */
function onOwnThread(turn: SubmitTurn) {
  const thread_suffix = durableSuffix(turn.run_id);
  const address = runAddress(turn.principal.tenant_id, thread_suffix, turn.run_id);
  return [address, "start", { ...turn, thread_suffix }] as const;
}

function clientOf(
  { principal, run_id }: SubmitTurn,
  suffix: string,
  { bus, env }: ActorContext<PatternDeps>,
): EventLogClient {
  return new EventLogClient(bus, threadAddress(principal.tenant_id, suffix), run_id, env);
}

/** Returns the request that opens the log. */
function openedWith(turn: SubmitTurn, { session }: CompiledAgent): Omit<OpenAsked, "idempotency" | "makeRoom"> {
  const { surface, messages, lease, parent, bytes = 0 } = turn;
  const { work } = entryPointOf(surface);
  const compacts = work === "compaction";
  return {
    needed: compacts ? 1 : messagesNeeded(session),
    // A turn that continues an earlier one has no message of a user.
    withUser: work === "continuation" || messages.at(-1)?.role === "tool",
    lease,
    appends: compacts || parent !== undefined ? null : bytes,
    compacts,
  };
}

/** See `pinOf`. A turn without a thread has no pin, and neither has a task, which lives for one run. */
function pinningOf(
  { thread_suffix, parent }: SubmitTurn,
  agent: CompiledAgent,
  thread: OpenThread,
  store: TenantStore,
  env: ActorContext<PatternDeps>["env"],
): Promise<WriteOp | null> | null {
  if (thread_suffix === null || parent !== undefined || !(thread.pinned || agent.isPinned)) return null;
  return pinOf(store, thread, thread_suffix, agent, env.now());
}

/** Adds the time that a client may wait for a durable run. */
function withWait(accepted: TurnAccepted, agent: CompiledAgent): TurnAccepted {
  return accepted.kind === "accepted" ? { ...accepted, wait_ms: waitMs(agent) } : accepted;
}

/** A client of the OpenAI protocol sends the earlier messages again. On a thread only those after the last answer are new. */
function withoutAnswered(turn: SubmitTurn, { exists }: OpenThread): SubmitTurn {
  if (!exists || !entryPointOf(turn.surface).resendsHistory) return turn;
  const lastAssistant = turn.messages.findLastIndex((message) => message.role === "assistant");
  return { ...turn, messages: turn.messages.slice(lastAssistant + 1) };
}
