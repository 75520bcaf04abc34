import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import { countInterrupted } from "../../../governance/agent-metrics.ts";
import { modeOf } from "../../../governance/auth/permission-modes.ts";
import type { SecretMask } from "../../../governance/secret-mask.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { styledPrompt } from "../../../manifests/sections/output-styles.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { withActiveSkills } from "../../log/active-skills.ts";
import { attachmentsOf } from "../../log/attachment.ts";
import { inCallOrder } from "../../log/branch.ts";
import type { LogEntry } from "../../log/entry.ts";
import { type ContextMessage, contextMessage, signedThoughts } from "../../log/message.ts";
import type { AskedKey, KeptByThread, OpenThread } from "../../log/messages.ts";
import { checkRoom } from "../../log/thread-size.ts";
import { toolMessage } from "../../log/tool-outcome.ts";
import type { RunDeps } from "../context/deps.ts";
import type { OpenAsked } from "../event-log/event-log.ts";
import { lastUserMessage, turnStartOf } from "../prompt/working-set.ts";
import { planningAgent } from "../spec/planning-agent.ts";
import type { RunSpec, RunStart } from "../spec/run-spec.ts";
import { admitMaxTokens, admitModel, admitStops, routesThatSee, thinkingFor } from "./admission.ts";
import { askedHooks } from "./asked-hooks.ts";
import { releasedResults } from "./client-results.ts";
import type { EntryQuestions } from "./entry-questions.ts";
import { ephemeralInstructionFor } from "./ephemeral-instruction.ts";
import { findFiles } from "./files.ts";
import { type Intake, takeMessages } from "./intake.ts";
import { withRecalled } from "./recalled-thoughts.ts";
import { mayRepeat, repeatedTurn } from "./repeated.ts";
import { inputScreen, screenedInput } from "./screened-input.ts";
import { screenQueued } from "./screened-message.ts";
import { admitCall } from "./single-call.ts";

/** A turn whose manifest is resolved and whose log is open. */
export interface OpenTurn {
  readonly turn: SubmitTurn;
  readonly agent: CompiledAgent;
  /** Options of the OpenAI protocol; null without any. */
  readonly options: TurnOptions | null;
  readonly key: AskedKey | null;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  readonly thread: OpenThread;
  /** The statement that pins the thread to its manifest; null for none. */
  readonly pinning: WriteOp | null;
  readonly store: TenantStore;
  readonly makeRoom: OpenAsked["makeRoom"];
}

/** The result of the intake: the entries of the first batch, and the initial state of the run. */
export interface TakenIn {
  readonly start: RunStart;
  /** Entries of the first batch: results of calls that were left open, then the caller's messages. */
  readonly entries: readonly LogEntry[];
  /** The start of the caller's text, for lists; null without text. */
  readonly preview: string | null;
  /** Dropped message parts, which no model gets; null for none. */
  readonly leftOut: { readonly dropped: readonly string[] } | null;
  /** Settings that the thread stores for later turns; null for none. */
  readonly kept: KeptByThread | null;
}

/**
 * Takes in the caller's messages, or refuses the turn. The result depends on the log. Calls that were left open get a result. A turn that
 * is sent again continues the failed one. The branch decides which models can answer. `models` are for the controls of the messages.
 */
export async function takeIn(opened: OpenTurn, deps: RunDeps, models: EntryQuestions | null): Promise<TakenIn> {
  const { turn, agent, options, key, thread, store } = opened;
  const { surface, principal } = turn;
  const { work } = entryPointOf(surface);
  checkFollows(turn, thread);
  const admitted = admitModel(turn, agent, deps);
  const compacts = work === "compaction";
  if (compacts) checkCompactable(agent, thread);
  const screen = deps.inputControls.length === 0 ? null : inputScreen(turn, agent, opened.threadId, models, deps);
  const call = turn.call === undefined ? null : await admitCall(turn.call, agent, principal.tenant_id, screen, deps);
  let intake = work === "turn" ? takeMessages(turn, agent, thread.closing) : null;
  if (intake && intake.droppedParts.length > 0)
    deps.log.warn({ request_id: turn.request_id, parts: intake.droppedParts }, "message parts dropped");
  if (intake && screen !== null) intake = await screenedInput(intake, screen);
  if (screen !== null && thread.queued !== null) await screenQueued(store, thread.thread_key, agent, screen);
  if (intake && intake.fileIds.length > 0) intake = await findFiles(intake, store, turn.request_id, deps);
  const leftOut = intake === null || intake.droppedParts.length === 0 ? null : { dropped: intake.droppedParts };
  let { closing } = thread;
  if (intake !== null && intake.answers.size + intake.results.size > 0) {
    const of = { turn, agent, threadId: opened.threadId, models, deps };
    ({ intake, closing } = await releasedResults(of, closing, intake));
  }
  const repeated =
    intake !== null && sendsAgain(turn) && mayRepeat(intake, thread)
      ? await repeatedTurn(turn, intake, thread, agent, store, opened.makeRoom)
      : null;
  if (repeated !== null) intake = null;
  // A chain may continue after a failed response only if the client repeats the same question.
  else if (turn.response?.follows?.repeats) throw new SvcError("conflict");
  // A client that keeps its own history only calls tools of its request, so other requests need no recall.
  if (intake !== null && agent.requestTools !== undefined)
    intake = await withRecalled(intake, principal.tenant_id, deps);
  const branch = [...(repeated ?? thread).branch];
  let ephemeralInstruction = intake === null ? (repeated?.ephemeralInstruction ?? null) : null;
  if (compacts) ephemeralInstruction = screen === null ? wishOf(turn) : await screen(wishOf(turn));
  else if (work === "continuation" && repeated === null)
    ephemeralInstruction = await ephemeralInstructionFor(store, thread);

  countInterrupted(deps, agent, closing.filter(({ isHanded }) => !isHanded).length + thread.closingAside.length);
  if (closing.length > 0) {
    branch.push(...closing.map(toolMessage));
    inCallOrder(branch, branch.length - closing.length);
  }
  if (intake !== null && agent.skills !== null)
    intake = { ...intake, entries: withActiveSkills(intake.entries, branch) };
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
  const closed = [...thread.closingAside, ...closing.map(({ entry }) => entry)];
  const entries = [...closed, ...(intake?.entries ?? [])];
  checkRoom(entries, thread.room, deps.settings);
  const { permission_mode } = thread;
  const mode = modeOf(agent, permission_mode, principal);
  const inMode = (found: CompiledAgent) => (mode === "plan" ? planningAgent(found) : found);
  // A side question has no tools.
  const above = turn.parent?.allow_hosts ?? [];
  const rules = { derive: inMode, above };
  const tools = turn.side_of === undefined ? deps.toolSets.opening(agent, principal.tenant_id, rules) : null;
  // A thread without a permission mode stores the mode of its first run.
  const kept = permission_mode === null && mode !== "default" ? { permission_mode: mode } : null;
  const spec = {
    run_id: turn.run_id,
    request_id: turn.request_id,
    ...spanOf(turn, agent, deps.tracer),
    surface,
    principal,
    agent: inMode(agent),
    mode,
    outputStyle: thread.output_style,
    systemPrompt: styledPrompt(agent, thread.output_style),
    routes,
    temperature: turn.temperature ?? agent.model.temperature,
    max_tokens: admitMaxTokens(turn, agent),
    thinking: thinkingFor(agent, thread.thinking_level),
    thread_suffix: turn.thread_suffix,
    parent: turn.parent ?? null,
    isShared: false,
    hops: turn.hops ?? 0,
    response: turn.response,
    options,
    trigger: turn.trigger ?? null,
    evaluation: turn.evaluation ?? null,
    workflow: turn.workflow ?? null,
    call,
    userText,
    startedAt: deps.env.now(),
    keyedAs: turn.run_id,
    againOf: repeated?.first_seq ?? null,
    thread_key: thread.thread_key,
    resumed: null,
    queued: thread.queued,
    idempotency: key,
    fromSeq: Math.max(0, thread.next_seq),
  };
  const material = agent.hooks.length === 0 ? null : await askedHooks(opened, userText, deps);
  const start = {
    ...{ spec, branch, turnStart, ephemeralInstruction, tools, durableRun: null, material },
    spentBefore: models?.spent ?? null,
  };
  return { start, entries, preview: previewOf(intake, deps.mask), leftOut, kept };
}

/** True if the client may automatically resend a failed turn, as clients of the OpenAI protocol do. */
function sendsAgain({ surface, response }: SubmitTurn): boolean {
  return entryPointOf(surface).resendsHistory || response?.follows?.repeats === true;
}

/** Refuses with unknown_thread and compaction_disabled. */
function checkCompactable({ context }: CompiledAgent, { exists }: OpenThread): void {
  if (!exists) throw new SvcError("unknown_thread");
  if (!context.compaction_enabled) throw new SvcError("compaction_disabled");
}

/** The caller's instructions for the summary of POST /chat/compact; empty without any. */
function wishOf({ messages }: SubmitTurn): string {
  const content = messages[0]?.content;
  return typeof content === "string" ? content : "";
}

/** Checks that no other turn has followed the response that this one continues. Refuses with conflict. */
function checkFollows({ response }: SubmitTurn, { exists, leaf_seq }: OpenThread): void {
  const follows = response?.follows ?? null;
  // The idempotency key was released between two lookups, so the request names no position to continue from.
  if (follows === null && !exists && (response?.previous_response_id ?? null) !== null) throw new SvcError("conflict");
  if (follows === null || (leaf_seq >= follows.first_seq && leaf_seq <= follows.last_seq)) return;
  throw new SvcError("conflict");
}

/** Max characters of the first user message in the list of threads. */
const previewMax = 120;

/** The caller's first words, for the list of threads; null without text. */
function previewOf(intake: Intake | null, mask: SecretMask): string | null {
  if (intake === null || intake.userText === null) return null;
  return mask.forms
    .text(intake.userText)
    .slice(0, previewMax * 4)
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, previewMax)
    .toWellFormed();
}

/** Converts entries of the caller into messages for the model. */
function messagesOf(entries: readonly LogEntry[]): ContextMessage[] {
  return entries.map((entry) =>
    contextMessage({
      role: entry.role ?? "user",
      content: entry.content,
      name: entry.kind === "tool_result" ? undefined : entry.extra?.name,
      tool_calls: entry.extra?.tool_calls,
      tool_call_id: entry.extra?.tool_call_id,
      attachments: attachmentsOf(entry.extra),
      thoughts: signedThoughts(entry.extra?.metadata?.thinking),
      entry,
    }),
  );
}

/** Returns the span of the run, under that of its request or its parent run. Work without a request begins a trace. */
function spanOf(
  { trace }: SubmitTurn,
  { manifest }: CompiledAgent,
  tracer: RunDeps["tracer"],
): Partial<Pick<RunSpec, "trace">> {
  if (tracer === null || trace === null || !manifest.spec.observability.trace) return {};
  const open = trace === undefined ? tracer.begin() : tracer.under(trace);
  return open === null ? {} : { trace: open };
}
