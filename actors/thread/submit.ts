import { SvcError } from "../../bus/errors.ts";
import { outputFor } from "../../bus/frames/make-output.ts";
import type { SubmitTurn, TurnAccepted } from "../../bus/protocol/thread.ts";
import { readEventsBefore, threadUid } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { admitCaller, admitMaxTokens, admitModel } from "../run/admission.ts";
import { countInterrupted } from "../run/agent-metrics.ts";
import { type ContextMessage, contextMessage } from "../run/context/message.ts";
import { lastUserMessage, messagesNeeded, turnStartOf } from "../run/context/working-set.ts";
import type { RunDeps } from "../run/deps.ts";
import { claimOps, earlierAnswer, keyScope, settleOps, storedAnswer } from "../run/idempotency.ts";
import { type Intake, takeMessages } from "../run/intake.ts";
import type { JournalEntry } from "../run/journal.ts";
import type { RunPlan } from "../run/plan.ts";
import { Run } from "../run/run.ts";
import { type ToolOutcome, toolMessage } from "../run/tool-outcome.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { closeOpenCalls, hasOpenCalls } from "./open-calls.ts";
import { replayStream } from "./replay.ts";
import { ThreadJournal } from "./thread-journal.ts";
import { branchOf, type ThreadState, trimBranch } from "./thread-state.ts";

// From a request to a live run: who may, whether it was asked before, whether the thread is free, what it says, and then one
// batch that makes the caller's messages durable together with the mark of the run and the claim of its key.

/** Characters of the first user message that the list of sessions shows. */
const previewMax = 120;

/**
 * Takes a turn, or refuses it before anything was changed. Asked again with the same run id, it answers the same and
 * runs nothing.
 */
export async function submitTurn(
  state: ThreadState,
  sent: SubmitTurn,
  context: ActorContext<ThreadDeps>,
): Promise<TurnAccepted> {
  const { deps, env } = context;
  if (state.run?.id === sent.run_id || state.lastRunId === sent.run_id) return { kind: "started" };
  if (state.head === null && isReserved(state.suffix)) throw new SvcError("invalid_thread_id");
  const turn = withThreadDefaults(sent, state);
  const agent = await admitCaller(turn, deps);
  const earlier = await earlierAnswer(state.store, turn, env.now());
  if (earlier) return turn.surface === "chat_stream" ? replayStream(state, earlier) : storedAnswer(earlier.answer);
  if (state.run) throw new SvcError("run_in_progress", { subject: state.run.id });

  const routes = admitModel(turn, agent, deps);
  const intake = turn.surface === "continue" ? null : takeMessages(turn, agent);
  if (intake && intake.droppedParts.length > 0)
    deps.log.warn({ request_id: turn.request_id, parts: intake.droppedParts }, "message parts dropped");
  const continues = intake === null;
  const branch = await branchOf(state, messagesNeeded(agent.session), continues);
  const nudge = continues ? await nudgeFor(state, branch) : null;

  const closing = await openCallsClosed(state, branch);
  countInterrupted(deps, agent, closing.length);
  const entries = [...closing.map((outcome) => outcome.entry), ...(intake?.entries ?? [])];
  const created = state.head === null ? await newThread(state, turn, intake, context) : null;
  const startedAt = env.now();
  const fromSeq = state.head?.next_seq ?? 0;
  branch.push(...closing.map(toolMessage));
  const requestStart = branch.length;
  branch.push(...messagesOf(intake?.entries ?? []));

  const journal = new ThreadJournal(state, env, context.bus, agent.name, routes[0]?.id ?? "");
  const begun = journal.begin(
    created,
    entries,
    {
      suffix: state.suffix,
      run_id: turn.run_id,
      owner: deps.owner,
      started_at: startedAt,
      idempotency_scope: turn.idempotency === null ? null : keyScope(turn, turn.idempotency.key),
    },
    claimOps(state.store, turn, {
      owner: deps.owner,
      now: startedAt,
      ttlSeconds: deps.settings.idempotencyTtlSeconds,
      fromSeq,
    }),
  );
  const plan: RunPlan = {
    run_id: turn.run_id,
    request_id: turn.request_id,
    surface: turn.surface,
    principal: turn.principal,
    agent,
    routes,
    temperature: turn.temperature ?? agent.model.temperature,
    max_tokens: admitMaxTokens(turn, agent),
    thread_suffix: state.suffix,
    branch,
    turnStart: continues ? lastUserMessage(branch) : turnStartOf(branch, requestStart),
    nudge,
    userText: intake?.userText ?? null,
    startedAt,
    origin: turn.idempotency === null ? null : turn.run_id,
    settle: (outcome, endSeq) => settleOps(state.store, turn, outcome, { from: fromSeq, to: endSeq }),
  };
  // A claim may be refused, and then there must not have been a run. Otherwise the model is asked while the disk is written:
  // nothing is shown before the write is acknowledged.
  if (turn.idempotency !== null) await orDiscard(begun, context, turn);
  const run = new Run(plan, journal, outputFor(turn, context.bus.channel(turn.channel), agent.name, startedAt), deps);
  own(state, run, journal, context);
  await orDiscard(begun, context, turn, run);
  return { kind: "started" };
}

/** What closes the calls that a run has left without a result, when it failed in a way that recovery has not seen. */
async function openCallsClosed(
  { store, head }: ThreadState,
  branch: readonly ContextMessage[],
): Promise<ToolOutcome[]> {
  if (head === null || !hasOpenCalls(branch)) return [];
  return closeOpenCalls(store, head.thread_key, head.leaf_seq, null);
}

/** Waits for the first batch; when it is refused, the state is read again, for it is ahead of the log. */
async function orDiscard(
  begun: Promise<void>,
  context: ActorContext<RunDeps>,
  turn: SubmitTurn,
  run?: Run,
): Promise<void> {
  try {
    await begun;
  } catch (error) {
    run?.abort("worker_lost");
    context.discard();
    const refusal = SvcError.from(error);
    if (refusal.code !== "conflict") throw refusal;
    // With a key: it was claimed by the same request on another connection, a moment ago.
    throw new SvcError(turn.idempotency === null ? "conflict" : "idempotency_in_progress");
  }
}

function own(state: ThreadState, run: Run, journal: ThreadJournal, context: ActorContext<RunDeps>): void {
  state.run = run;
  state.journal = journal;
  void run.ended.then((written) => {
    state.run = null;
    state.journal = null;
    state.lastRunId = run.id;
    if (!written && !state.replaced) context.discard();
    else trimBranch(state);
  });
}

/**
 * Whether a path could not name such a thread in one way only: what is read twice on its way is another thread after an escape in
 * it, and `/chat/sessions/search` is the search. Threads that have such an id already keep it.
 */
function isReserved(suffix: string): boolean {
  return suffix === "search" || suffix.includes("%");
}

/** On a thread, the OpenAI surface says again what was said before, and a continuation may leave out the manifest. */
function withThreadDefaults(turn: SubmitTurn, state: ThreadState): SubmitTurn {
  if (state.head === null) return turn;
  if (turn.surface === "continue" && turn.manifest === "") return { ...turn, manifest: state.head.manifest ?? "" };
  if (turn.surface !== "openai" && turn.surface !== "openai_stream") return turn;
  const lastAssistant = turn.messages.findLastIndex((message) => message.role === "assistant");
  return { ...turn, messages: turn.messages.slice(lastAssistant + 1) };
}

async function newThread(
  state: ThreadState,
  turn: SubmitTurn,
  intake: Intake | null,
  { deps, env }: ActorContext<ThreadDeps>,
): Promise<ThreadRow> {
  const now = env.now();
  return {
    thread_key: await deps.threadKeys.next(),
    suffix: state.suffix,
    uid: threadUid(env.id()),
    created_at: now,
    updated_at: now,
    next_seq: 0,
    leaf_seq: -1,
    revision: 0,
    manifest: turn.manifest,
    model_id: null,
    session_name: null,
    preview: intake === null ? null : preview(deps.mask.forms.text(intake.userText)),
    parent_session_id: null,
    meta: {},
  };
}

function preview(text: string): string {
  return text
    .slice(0, previewMax * 4)
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, previewMax)
    .toWellFormed();
}

function messagesOf(entries: readonly JournalEntry[]): ContextMessage[] {
  return entries.map((entry) =>
    contextMessage({ role: entry.role ?? "user", content: entry.content, name: entry.extra?.name }),
  );
}

/**
 * What a continuation says to the model: nothing after a user's message, which only waits for its answer; a word after calls, and
 * after an answer that was cut off. Refuses with nothing_to_continue and already_complete.
 */
async function nudgeFor(state: ThreadState, branch: readonly ContextMessage[]): Promise<string | null> {
  const last = branch.at(-1);
  const { head } = state;
  if (!last || head === null) throw new SvcError("nothing_to_continue");
  if (last.role === "tool" || last.tool_calls !== null) return "[continue]";
  if (last.role !== "assistant") return null;
  const newest = await readEventsBefore(state.store, head.thread_key, head.leaf_seq + 1, 16);
  const answer = newest.find((event) => event.kind === "message" && event.role === "assistant");
  if (answer?.extra?.metadata?.status === undefined) throw new SvcError("already_complete");
  return "Continue.";
}
