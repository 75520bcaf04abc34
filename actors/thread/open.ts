import { isHiddenSuffix } from "../../bus/address.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TurnAccepted } from "../../bus/protocol/run.ts";
import { threadUid } from "../../storage/tables/events.ts";
import { leaseRefusal } from "../../storage/tables/thread-leases.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { earlierAnswer, loggedAnswer, storedAnswer } from "../log/earlier-answer.ts";
import type { AnswerForm, BeginRun, BegunRun, OpenedLog, OpenLog, TakenRun, TakeRun } from "../log/messages.ts";
import { closeOpenCalls, closeSubAgentCalls, hasOpenCalls } from "../log/open-calls.ts";
import { roomOf } from "../log/thread-size.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { EventLogWriter } from "./event-log-writer.ts";
import { Opening } from "./opening.ts";
import { replayStream } from "./replay.ts";
import { admitBytes } from "./room.ts";
import { branchOf, forgetBranch, loadedBytes, type ThreadState } from "./thread-state.ts";

/** Max wait for the preceding run; after that, the waiting run itself has been given up. */
const patienceMs = 9_000;

/** Reserves the log for a run, after earlier opens have begun or given up. */
export async function openLog(
  state: ThreadState,
  asked: OpenLog,
  { env, deps }: ActorContext<ThreadDeps>,
): Promise<OpenedLog> {
  const { run_id, idempotency, needed, withUser, lease } = asked;
  if ([state.live?.runId, state.suspended?.run_id, state.lastRunId].includes(run_id)) return { kind: "known" };
  const { opening } = state;
  if (state.closing !== null || (opening !== null && opening.runId !== run_id)) {
    const askedAt = env.monotonic();
    await state.closing;
    await opening?.over();
    // The opening run failed and replaced the state.
    if (state.replaced) throw new SvcError("actor_lost");
    if (env.monotonic() - askedAt > patienceMs) throw new SvcError("deadline_exceeded");
  }
  const earlier = idempotency === null ? null : await earlierAnswer(state.store, idempotency, env.now());
  if (earlier !== null) {
    return { kind: "earlier", accepted: await answerAgain(state, idempotency?.form ?? "body", earlier) };
  }
  // A repeated request runs nothing and needs no lease (decision 92: the earlier answer is checked before the lease).
  const refused = lease === null || state.head === null ? null : await leaseRefusal(state.store, state.suffix, lease);
  if (refused !== null) throw new SvcError(refused);
  const busy = state.live?.runId ?? state.suspended?.run_id;
  if (busy !== undefined) return { kind: "busy", run_id: busy };
  if (asked.appends !== null) await admitBytes(state.store, state.head, asked.appends, deps.settings);
  const loaded = loadedBytes(state, asked);
  const bytes = loaded instanceof Promise ? await loaded : loaded;
  if (bytes > asked.granted) return { kind: "large", bytes };
  const found = branchOf(state, needed, withUser);
  const branch = found instanceof Promise ? await found : found;
  const { head } = state;
  // Closes calls of a run that failed without recovery noticing.
  const isOpen = head !== null && hasOpenCalls(branch);
  const closing = isOpen
    ? await closeOpenCalls(state.store, head.thread_key, head, { mask: deps.mask, endedRun: true })
    : none;
  const closingAside =
    head !== null && branch.at(-1)?.role === "user"
      ? await closeSubAgentCalls(state.store, head.thread_key, head, deps.mask)
      : none;
  const names = head ?? state.unborn ?? unborn(state, env, deps);
  const { thread_key, uid } = names instanceof Promise ? await names : names;
  state.opening = new Opening(run_id, env);
  const { next_seq, leaf_seq } = head ?? { next_seq: 0, leaf_seq: -1 };
  const { thinking_level = null, output_style = null, permission_mode = null } = head?.meta ?? {};
  const queued = state.queue?.forStep ?? null;
  const room = roomOf(head, deps.settings);
  const place = { exists: next_seq > 0, thread_key, uid, next_seq, leaf_seq, queued, room };
  const kept = { thinking_level, output_style, permission_mode, pinned: head?.meta.pinned === true };
  return { kind: "open", thread: { ...place, ...kept, branch, closing, closingAside } };
}

/** Returns the reply to a repeated request. */
function answerAgain(
  state: ThreadState,
  form: AnswerForm,
  earlier: { readonly run_id: string; readonly answer: string },
): TurnAccepted | Promise<TurnAccepted> {
  if (form === "frames") return replayStream(state, earlier);
  return form === "run" ? loggedAnswer(earlier) : storedAnswer(earlier.answer);
}

/** Writes the first batch of the run that opened the log. If that fails, the state is ahead of the log and is reloaded. */
export async function beginRun(
  state: ThreadState,
  first: BeginRun,
  context: ActorContext<ThreadDeps>,
): Promise<BegunRun> {
  const { opening } = state;
  if (opening?.runId !== first.run_id) throw new SvcError("conflict");
  if (state.noting !== null) {
    // Its write comes first; if that fails, the run's view of the log is stale.
    await state.noting.catch(() => {});
    if (state.replaced || state.opening !== opening) throw new SvcError("conflict");
  }
  const { env } = context;
  const writer = newWriter(state, first.run_id, context);
  state.live = writer;
  try {
    const position = await writer.begin(state.head === null ? newThread(state, first, env.now()) : null, first);
    if (first.accepted === "aside") {
      state.suspended = writer.begun;
      state.live = null;
      // The run reads its branch itself when it starts.
      forgetBranch(state);
    }
    return { ...position, run: writer.begun };
  } catch (error) {
    dropState(state, context, error);
    noteDoubt(state, error, context);
    throw error;
  } finally {
    state.opening = null;
    opening.close();
  }
}

/** Makes a suspended run live again. */
export async function takeRun(
  state: ThreadState,
  { run_id, owner, slot }: TakeRun,
  context: ActorContext<ThreadDeps>,
): Promise<TakenRun> {
  if (state.noting !== null) await state.noting.catch(() => {});
  if (state.replaced) throw new SvcError("actor_lost");
  const { suspended, head } = state;
  if (suspended?.run_id !== run_id || head === null) return { kind: "not_waiting" };
  if (suspended.asked.durable !== undefined && !slot) return { kind: "needs_slot" };
  const writer = newWriter(state, run_id, context);
  state.live = writer;
  state.suspended = null;
  try {
    await writer.take(suspended, owner);
  } catch (error) {
    // The caller retries, and the check below covers a claim that was applied but not confirmed.
    noteDoubt(state, error, context);
    dropState(state, context, error);
    throw error;
  }
  const { thread_key, uid, next_seq, leaf_seq, bytes, meta } = head;
  const thinking_level = meta.thinking_level ?? null;
  const queued = state.queue?.forStep ?? null;
  const pinned = meta.pinned === true;
  const thread = { exists: true, thread_key, uid, next_seq, leaf_seq, bytes, thinking_level, pinned, queued };
  return { kind: "taken", run: suspended, epoch: writer.epoch, thread };
}

function newWriter(state: ThreadState, runId: string, { env, bus, deps }: ActorContext<ThreadDeps>): EventLogWriter {
  return new EventLogWriter(runId, state, env, bus, () =>
    deps.unconfirmed.look({ kind: "thread", key: state.threadId }),
  );
}

/** If the store did not confirm a write, a run may be stored as live; schedule checks. */
function noteDoubt({ threadId }: ThreadState, error: unknown, { deps }: ActorContext<ThreadDeps>): void {
  if (SvcError.from(error).code === "storage_unavailable") deps.unconfirmed.note({ kind: "thread", key: threadId });
}

/**
 * Drops a state that differs from the store; the next message reloads it. The next load also publishes events that this host may
 * have written without an answer, unless `cause` is a conflict: the store then wrote nothing, and another host has published
 * the newer events of the log.
 */
export function dropState(
  state: ThreadState,
  context: Pick<ActorContext<ThreadDeps>, "discard" | "deps">,
  cause?: unknown,
): void {
  if (state.replaced) return;
  const isRefused = cause instanceof SvcError && cause.code === "conflict";
  if (!isRefused) context.deps.unpublished.note(state);
  state.replaced = true;
  state.opening?.close();
  context.discard();
}

const none: readonly never[] = [];

function newThread({ suffix, unborn }: ThreadState, first: BeginRun, now: number): ThreadRow {
  if (unborn === null) throw new Error("the thread has no number");
  const { manifest, model_id, preview, parent_session_id = null } = first;
  const updated_at = isHiddenSuffix(suffix) ? 0 : now;
  return { ...emptyThread(unborn, suffix, now), updated_at, manifest, model_id, preview, parent_session_id };
}

/** Returns the row of a thread without messages. */
export async function newThreadRow(state: ThreadState, env: Env, deps: ThreadDeps): Promise<ThreadRow> {
  return emptyThread(await unborn(state, env, deps), state.suffix, env.now());
}

/** Returns number and id prefix for a thread that is not stored yet. */
function unborn(state: ThreadState, env: Env, { threadKeys }: ThreadDeps): Unborn | Promise<Unborn> {
  const named = (thread_key: number): Unborn => {
    state.unborn ??= { thread_key, uid: threadUid(env.id()) };
    return state.unborn;
  };
  const key = threadKeys.take();
  return key === null ? threadKeys.next().then(named) : named(key);
}

type Unborn = NonNullable<ThreadState["unborn"]>;

function emptyThread(names: Unborn, suffix: string, now: number): ThreadRow {
  return {
    ...names,
    suffix,
    created_at: now,
    updated_at: 0,
    next_seq: 0,
    leaf_seq: -1,
    bytes: 0,
    revision: 0,
    epoch: 0,
    manifest: null,
    model_id: null,
    session_name: null,
    preview: null,
    parent_session_id: null,
    meta: {},
  };
}
