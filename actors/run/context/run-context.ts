import { isTaskSuffix, onceSuffix, publicThread } from "../../../bus/address.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import { tellNews } from "../../../bus/protocol/news.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { AuditType } from "../../../governance/audit-types.ts";
import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import type {
  ControlDecided,
  ControlDecision,
  ControlQuestion,
  GovernedCall,
} from "../../../governance/controls/control.ts";
import { type Denial, recordDenial } from "../../../governance/controls/denial.ts";
import { type AskedOutcome, askOutcome } from "../../../governance/controls/outcome-unknown.ts";
import type { Pipeline } from "../../../governance/controls/pipeline.ts";
import { RunHooks } from "../../../governance/hooks/run-hooks.ts";
import { attributeNames, spanNames } from "../../../governance/tracing/conventions.ts";
import { digestOfRun, type EndedSpan } from "../../../governance/tracing/tracer.ts";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { taintOf } from "../../log/message.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import type { WorkspaceConfig } from "../../tools/tool.ts";
import { threadCheckout } from "../../tools/workspace/thread-checkout.ts";
import { Billing } from "../billing/billing.ts";
import type { EventLog } from "../event-log/event-log.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { RunSpec, RunStart } from "../spec/run-spec.ts";
import { RunStream } from "../stream/run-stream.ts";
import type { RunDeps } from "./deps.ts";
import { RunBranch } from "./run-branch.ts";
import { Governed, isAttended, pipelineOf } from "./run-pipeline.ts";
import { RunState, type Speaker, StepState } from "./state.ts";
import { Steering } from "./steering.ts";

/** Max characters of texts of hooks that the model is shown. */
const materialMax = 32_000;

/** The parent agent of a sub-agent, and whether the sub-agent's text is the answer of the turn. */
export interface Delegated {
  readonly over: RunContext;
  readonly answers: boolean;
}

/** Asks models for controls. */
export interface ControlModels {
  ask(runContext: RunContext, question: ControlQuestion): Promise<unknown>;
  decide(runContext: RunContext, question: ControlDecision): Promise<ControlDecided>;
}

/**
 * Services and state that the parts of a run share for one of its agents. No field is replaced after the first step: changing
 * state is inside `run`, `step`, `branch` and others.
 */
export class RunContext {
  spec: RunSpec;
  readonly deps: RunDeps;
  readonly eventLog: EventLog;
  /** The store of the run's tenant. */
  readonly store: TenantStore;
  /** Finds the repository of the thread. */
  readonly checkout: WorkspaceConfig["checkout"];
  /** How a durable run stores its progress; null for every other run. */
  readonly durableRun: DurableRun | null;
  /** State of the run. All its agents share it, and `billing` and `cancellation`. */
  readonly run: RunState;
  /** State of this agent's steps. */
  readonly step: StepState;
  /** The messages that this agent sees. */
  readonly branch: RunBranch;
  readonly stream: RunStream;
  readonly billing: Billing;
  readonly cancellation: Cancellation;
  readonly metrics: AgentMetrics;
  /** The hooks of the manifest; null without any. */
  readonly hooks: RunHooks | null;
  /** The controls around tool calls and replies. */
  pipeline: Pipeline;
  /** Input that arrives while the run is live. */
  readonly steering: Steering;
  /** True if a person waits for the run and can answer a question. */
  readonly attended: boolean;
  /** The schema of the answer; null for any text. */
  readonly answerSchema: AnswerSchema | null;
  /** Asks models for the controls of this agent; set before the first step. */
  controlModels: ControlModels | null = null;
  /** The time at which this process began to work on the run. */
  readonly #openedAt: number;
  /** The agent that called this sub-agent; null for the agent that the caller asked. */
  readonly #of: Delegated | null;

  constructor(start: RunStart, eventLog: EventLog, output: RunOutput, deps: RunDeps, of: Delegated | null = null) {
    const { spec, durableRun } = start;
    this.#openedAt = spec.trace === undefined ? 0 : deps.env.now();
    if (spec.trace !== undefined && of === null)
      eventLog.onWritten = (work, begun, statements) =>
        this.span(() => ({
          name: spanNames.store(work),
          kind: "client",
          start: begun,
          attributes: { [attributeNames.statements]: statements },
        }));
    this.spec = spec;
    this.durableRun = durableRun;
    this.#of = of;
    const over = of?.over;
    this.run = over?.run ?? new RunState(spec, deps.env);
    this.step = new StepState(spec, start.ephemeralInstruction);
    if (start.material) this.tellModel(start.material);
    this.#inherit(spec);
    this.branch = new RunBranch(start.branch, start.turnStart, this.run.taint);
    this.cancellation = over?.cancellation ?? new Cancellation();
    this.eventLog = eventLog;
    this.stream = new RunStream({ output, eventLog, pace: deps.pace }, over?.stream ?? null, of?.answers === false);
    this.deps = deps;
    this.store = deps.store.tenant(spec.principal.tenant_id);
    this.checkout = over?.checkout ?? threadCheckout(this.store, spec.thread_suffix, deps.env);
    this.answerSchema = (of?.answers ? of.over.answerSchema : null) ?? spec.agent.outputSchema;
    this.attended = isAttended(spec);
    const { store, cancellation } = this;
    const onGone = () => this.orphaned();
    const { spentBefore = null } = start;
    this.billing = over?.billing ?? new Billing(spec, durableRun, { store, deps, cancellation, onGone, spentBefore });
    this.steering = of?.answers ? of.over.steering : new Steering(spec);
    this.metrics = new AgentMetrics(deps.metrics, spec.agent);
    this.hooks = spec.agent.hooks.length === 0 ? null : this.#hooksOf(spec);
    // The text of a sub-agent that answers for its parent agent passes that agent's reply controls too.
    this.pipeline = pipelineOf(this, deps, of?.answers ? of.over.pipeline.ofReplies : []);
  }

  /** Ends a span under that of the run, if the run is traced. */
  span(make: () => EndedSpan): void {
    const { trace } = this.spec;
    const { tracer } = this.deps;
    if (trace !== undefined && tracer !== null) tracer.end(tracer.under(trace), make());
  }

  /** Ends the span of the run, if it is traced. */
  endSpan(exit: string): void {
    const { trace, agent, surface, principal, run_id, startedAt, resumed, request_id } = this.spec;
    const { tracer } = this.deps;
    if (trace === undefined || tracer === null) return;
    const attributes = {
      [attributeNames.operation]: "invoke_agent",
      [attributeNames.agent]: agent.name,
      [attributeNames.entryPoint]: surface,
      [attributeNames.run]: digestOfRun(run_id),
      [attributeNames.requestId]: request_id,
      [attributeNames.stopReason]: exit,
      ...(resumed !== null && { [attributeNames.resumed]: true }),
      ...(this.eventLog.threadId !== "" && { [attributeNames.conversation]: this.eventLog.threadId }),
      ...(tracer.capturesIdentity && {
        [attributeNames.tenant]: principal.tenant_id,
        [attributeNames.user]: principal.sub,
      }),
    };
    const start = resumed === null ? startedAt : this.#openedAt;
    const error = exit === "lost" || exit === "failed" ? exit : null;
    tracer.end(trace, { name: spanNames.turn(agent.name), kind: "internal", start, attributes, error });
  }

  /** Tells the tenant's listeners the status of the run. */
  tellStatus(status: string, waiting_on: string | null = null): void {
    const { spec, deps } = this;
    const { run_id, principal, thread_suffix } = spec;
    const { tenant_id } = principal;
    if (thread_suffix !== null && isTaskSuffix(thread_suffix)) return;
    const thread_id = thread_suffix === null ? null : publicThread(tenant_id, thread_suffix);
    tellNews(deps.bus, tenant_id, () => {
      return { kind: "run_status", run_id, thread_id, manifest: spec.agent.name, status, waiting_on };
    });
    if (thread_id !== null) tellNews(deps.bus, tenant_id, () => ({ kind: "thread", thread_id, change: "updated" }));
  }

  /** Adds the tools that were found for the agent, and the controls for them. Called before the first step. */
  equip(agent: CompiledAgent): void {
    this.spec = { ...this.spec, agent };
    this.#inherit(this.spec);
    this.pipeline = pipelineOf(this, this.deps);
  }

  /** Takes over the untrusted sources of the parent run or of the workflow, of sub-agents before a suspension, and of instructions of MCP servers. */
  #inherit({ parent, workflow, resumed, agent }: RunSpec): void {
    const { taint } = this.run;
    taint.add(parent?.taint ?? []);
    taint.add(workflow?.taint ?? []);
    for (const { extra } of resumed?.ofSubAgents ?? []) taint.add(taintOf(extra) ?? []);
    taint.add((agent.found?.notes ?? []).map(({ server }) => `mcp:${server}`));
  }

  #hooksOf({ agent, run_id, parent, principal, trace }: RunSpec): RunHooks {
    const run = {
      hooks: agent.hooks,
      tenantId: principal.tenant_id,
      manifest: agent.name,
      threadId: parent?.root_thread_id ?? this.eventLog.threadId,
      runId: run_id,
      metrics: this.metrics,
      trace,
      audit: (...row: Parameters<RunContext["audit"]>) => this.audit(...row),
    };
    return new RunHooks(run, this.deps);
  }

  /** Shows texts to the model in its next calls. The oldest give way. */
  tellModel(texts: readonly string[]): void {
    if (texts.length === 0) return;
    this.run.taint.add(["hook"]);
    const all = [...(this.step.material ?? []), ...texts];
    let length = all.reduce((sum, text) => sum + text.length, 0);
    while (length > materialMax) length -= all.shift()?.length ?? length;
    this.step.material = all;
  }

  /** Asks a model for a control. Null without a usable answer. */
  async askModel(question: ControlQuestion): Promise<unknown> {
    return this.controlModels?.ask(this, question) ?? null;
  }

  /** Asks the decider for a control. */
  async decide(question: ControlDecision): Promise<ControlDecided> {
    return this.controlModels?.decide(this, question) ?? { kind: "error" };
  }

  /** Asks a person for the outcome of an interrupted call. */
  askOutcome(call: GovernedCall): Promise<AskedOutcome> {
    return askOutcome(new Governed(this, this.deps), call);
  }

  /** The agent that called this sub-agent; null for the agent that the caller asked. */
  get askedBy(): RunContext | null {
    return this.#of?.over ?? null;
  }

  /** The agent whose text is the answer: this one, or the sub-agent that answers for it. */
  get answerer(): Speaker {
    return this.step.answering?.answerer ?? this;
  }

  /** The agent with the tools that the model is shown. */
  get offered(): CompiledAgent {
    return this.branch.offer?.agent ?? this.spec.agent;
  }

  /** Names of the agents from the one that the caller asked down to this one. */
  get agents(): readonly string[] {
    return [...(this.#of?.over.agents ?? []), this.spec.agent.name];
  }

  /** The agent that the caller asked. */
  get asked(): RunContext {
    return this.#of?.over.asked ?? this;
  }

  get abortReason(): AbortReason | null {
    return this.run.abortReason;
  }

  /** The permission mode. An approved plan changes it. */
  get mode(): PermissionMode {
    return this.run.mode;
  }

  get failedTool(): RunState["failedTool"] {
    return this.run.failedTool;
  }

  /**
   * Id of the thread over which the run's clients may answer its questions (decision 94: client tools). Null if no client that
   * may answer receives the frames.
   */
  get askedOn(): string | null {
    const { surface, parent, principal } = this.spec;
    if (parent !== null) return parent.heard ? parent.root_thread_id : null;
    return entryPointOf(surface).keepsStream && !isAnonymous(principal) ? this.sessionId : null;
  }

  /** Id of the session over which external answers to calls arrive: the thread, or a substitute for a run without one. */
  get sessionId(): string {
    const { principal, run_id, parent } = this.spec;
    return parent?.root_thread_id ?? (this.eventLog.threadId || `${principal.tenant_id}:${onceSuffix(run_id)}`);
  }

  /** Stops the run because its parent run or its thread no longer exists. */
  orphaned(): void {
    this.run.abortReason ??= "worker_lost";
    this.cancellation.cancel();
  }

  /** Records that all text and usage so far is in the log. */
  committed(): void {
    this.stream.committed();
    this.billing.written();
  }

  /** Ends the run because a tool has failed. */
  failFor(name: string, text: string): void {
    this.run.failedTool ??= { name, text };
    this.cancellation.cancel();
  }

  /** Audits and counts the denial of a control. `call` is the denied call; null for anything else. */
  denied(denial: Denial, call: { readonly tool: string; readonly tool_call_id: string } | null): void {
    recordDenial(denial, call, { audit: (...row) => this.audit(...row), metrics: this.metrics });
  }

  audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void {
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
