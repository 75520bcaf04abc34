import { onceSuffix } from "../../../bus/address.ts";
import type { CompactionResult, RunOutput } from "../../../bus/frames/output.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import type { GovernedCall } from "../../../governance/controls/control.ts";
import { type Denial, denialPayload } from "../../../governance/controls/denial.ts";
import { type AskedOutcome, askOutcome } from "../../../governance/controls/outcome-unknown.ts";
import type { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import type { ContextMessage } from "../../log/message.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import { Billing } from "../billing/billing.ts";
import type { EventLog } from "../event-log/event-log.ts";
import { MemoryWaits } from "../event-log/waits.ts";
import type { Chosen } from "../prompt/semantic.ts";
import type { Summed } from "../prompt/summed.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { RunStream } from "../stream/run-stream.ts";
import type { RunDeps } from "./deps.ts";
import { Governed, isAttended, pipelineOf } from "./run-pipeline.ts";
import { RunState } from "./run-state.ts";
import { Steering } from "./steering.ts";

/** For whom a sub-agent works, and whether what it says is the answer of the turn. */
export interface Delegated {
  readonly over: RunContext;
  readonly answers: boolean;
}

/** What the parts of a running turn share: what is asked, what was spent, what was said, and whether to stop. */
export class RunContext {
  readonly spec: RunSpec;
  readonly deps: RunDeps;
  readonly eventLog: EventLog;
  /** What the tenant of the run keeps. */
  readonly store: TenantStore;
  /** For whom a sub-agent of a composite agent works; null for the agent that was asked. */
  readonly #of: Delegated | null;
  /** The sub-agent that says the answer in the place of this agent; null while none does. */
  answering: RunContext | null = null;
  /** Close the calls of sub-agents that wait for somebody outside, in this process. */
  readonly aside: (() => Promise<void>)[] = [];
  /** Shared by all agents of the run, as are the billing and what it waits for. */
  readonly run: RunState;
  readonly cancellation: Cancellation;
  readonly billing: Billing;
  readonly metrics: AgentMetrics;
  /** What a run without a thread waits for. */
  readonly waits: MemoryWaits;
  /** The controls of this run. */
  readonly pipeline: Pipeline;
  /** What is said to the run while it goes on. */
  readonly steering: Steering;
  /** Model calls that count against the limit of steps although they were made before the loop has begun. */
  stepsBefore = 0;
  /** The step that the loop is at. */
  step = 0;
  /** Whether somebody waits for the run who could see to a question. */
  readonly attended: boolean;
  /** Whether the run has asked its model before. */
  hasCalledModel: boolean;
  /** The route that answered last. */
  route: RunSpec["routes"][number];
  /** References that led to nothing and were told of; null for none. */
  missingFiles: Set<string> | null = null;
  /**
   * What becomes of the model's words: passed on as they come; passed on by a pattern that has looked at them, with those beside tool
   * calls as soon as they are whole; or said to nobody, for they are not the answer.
   */
  replyMode: "streamed" | "buffered" | "hidden" = "streamed";
  /** The models that steps ask: those of the turn, unless a pattern says otherwise. */
  routes: RunSpec["routes"];
  /** What the answer has to be like; null for anything. */
  readonly answerSchema: AnswerSchema | null;
  /** Where steps begin: set until the first of them have. */
  resumed: RunSpec["resumed"];
  /** What the turn under way has in the log since before the run was put aside; null for a later turn of the run. */
  earlier: RunSpec["resumed"];
  /** What the branch begins with since the run has compacted it; null while it has not. */
  summed: Summed | null = null;
  /** What is shown before the running turn where that is chosen by what it asks; null where all of the branch may be shown. */
  chosen: Chosen | null = null;
  /** Tokens of the next call, where they are counted before it; null where they are estimated. */
  promptTokens: number | null = null;
  /** Of these, what is the same in every call; null before it is counted. */
  fixedTokens: number | null = null;
  /** What was asked for by POST /chat/compact has come to this. */
  compaction: CompactionResult | null = null;
  /** No summary could be had: the run does not ask for one again by itself. */
  summaryFailed = false;
  /** The last tool call was refused, so the turn did not do what it set out to do. */
  endedOnDenial = false;
  readonly stream: RunStream;
  /** What the last model call was shown, and how long the branch was then. */
  #shown: readonly ContextMessage[] = [];
  #shownUpTo: number;

  constructor(spec: RunSpec, eventLog: EventLog, output: RunOutput, deps: RunDeps, of: Delegated | null = null) {
    this.spec = spec;
    this.#of = of;
    const over = of?.over;
    this.run = over?.run ?? new RunState(spec);
    this.cancellation = over?.cancellation ?? new Cancellation();
    this.eventLog = eventLog;
    this.stream = new RunStream({ output, eventLog, pace: deps.pace }, over?.stream ?? null, of?.answers === false);
    this.deps = deps;
    this.store = deps.store.tenant(spec.principal.tenant_id);
    this.answerSchema = (of?.answers ? of.over.answerSchema : null) ?? spec.agent.outputSchema;
    this.resumed = spec.resumed;
    this.earlier = spec.resumed;
    this.routes = spec.routes;
    this.route = spec.routes[0] as RunSpec["routes"][number];
    this.#shownUpTo = spec.branch.length;
    this.hasCalledModel = spec.resumed !== null;
    this.attended = isAttended(spec);
    const { store, cancellation } = this;
    this.billing = over?.billing ?? new Billing(spec, { store, deps, cancellation, onGone: () => this.orphaned() });
    this.waits = over?.waits ?? new MemoryWaits(deps.env);
    this.steering = of?.answers ? of.over.steering : new Steering(spec);
    this.metrics = new AgentMetrics(deps.metrics, spec.agent);
    // What speaks in another's place is held to what that other may say.
    this.pipeline = pipelineOf(this, deps, of?.answers ? of.over.pipeline.ofReplies : []);
  }

  /** Asks a person what came of a call that was cut off. */
  askOutcome(call: GovernedCall): Promise<AskedOutcome> {
    return askOutcome(new Governed(this, this.deps), call);
  }

  /** Of which agent it is the sub-agent; null for the agent that was asked. */
  get askedBy(): RunContext | null {
    return this.#of?.over ?? null;
  }

  /** Who says the answer. */
  get answerer(): RunContext {
    return this.answering?.answerer ?? this;
  }

  /** The agents of the run, from the one that was asked to this one. */
  get agents(): readonly string[] {
    return [...(this.#of?.over.agents ?? []), this.spec.agent.name];
  }

  /** The agent that was asked. */
  get asked(): RunContext {
    return this.#of?.over.asked ?? this;
  }

  get abortReason(): AbortReason | null {
    return this.run.abortReason;
  }

  /** What the run may do without asking. It changes when a plan is approved. */
  get mode(): PermissionMode {
    return this.run.mode;
  }

  get failedTool(): RunState["failedTool"] {
    return this.run.failedTool;
  }

  /** The thread under which those who hear the frames of the run may answer it; null when nobody hears them who may (decision 94). */
  get askedOn(): string | null {
    const { surface, parent, principal } = this.spec;
    if (parent !== null) return parent.heard ? parent.root_thread_id : null;
    return surface === "chat_stream" && !isAnonymous(principal) ? this.sessionId : null;
  }

  /** The session to which others may say what came of a call: its thread, or what stands for one. */
  get sessionId(): string {
    const { principal, run_id, parent } = this.spec;
    return parent?.root_thread_id ?? (this.eventLog.threadId || `${principal.tenant_id}:${onceSuffix(run_id)}`);
  }

  /** The run that has handed out this one is gone, or the conversation that it belongs to. */
  orphaned(): void {
    this.run.abortReason ??= "worker_lost";
    this.cancellation.cancel();
  }

  /** Everything that was said is in the log now. */
  committed(): void {
    this.stream.committed();
    this.billing.written();
  }

  /** Ends the run for the failure of a tool. */
  failFor(name: string, text: string): void {
    this.run.failedTool ??= { name, text };
    this.cancellation.cancel();
  }

  /** Another turn of the run begins. */
  beginAnew(): void {
    this.earlier = null;
    this.answering = null;
  }

  /** Adds messages to the branch. */
  remember(messages: readonly ContextMessage[]): void {
    for (const message of messages) this.spec.branch.push(message);
  }

  /** Notes what a model call is shown. */
  show(messages: readonly ContextMessage[]): void {
    this.#shown = messages;
    this.#shownUpTo = this.spec.branch.length;
  }

  /** What the last model call was shown, and this turn's messages since. */
  answerMessages(): readonly ContextMessage[] {
    if (this.answering !== null) return this.answering.answerMessages();
    const { branch } = this.spec;
    // Without a window the whole branch was shown, and this turn's messages are in it already.
    return this.#shown === branch ? branch : [...this.#shown, ...branch.slice(this.#shownUpTo)];
  }

  /** Audits and counts what a control has refused; `call` is what it was, where it was a call. */
  denied(denial: Denial, call: { readonly tool: string; readonly tool_call_id: string } | null): void {
    this.audit("policy_deny", "denied", denialPayload(denial, call));
    this.metrics.count("svc_policy_deny_total", { policy: denial.rule, tool: call?.tool ?? "" });
  }

  audit(event_type: string, status: string, payload: Readonly<Record<string, unknown>>): void {
    const { principal, agent } = this.spec;
    this.deps.audit.record(principal.tenant_id, {
      event_type,
      status,
      manifest_id: agent.name,
      principal_subj: principal.sub,
      payload: { ...payload, thread_id: this.eventLog.threadId, request_id: this.spec.request_id },
    });
  }
}
