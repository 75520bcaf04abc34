import { frame, textFrames, thinkingFrames } from "../../bus/frames/frames.ts";
import type { RunOutput } from "../../bus/frames/output.ts";
import type { AbortReason, Surface } from "../../bus/protocol/run.ts";
import { AgentMetrics } from "../../governance/agent-metrics.ts";
import { RunBudget } from "../../governance/budget.ts";
import type { GovernedRun } from "../../governance/controls/control.ts";
import { type Denial, denialPayload } from "../../governance/controls/denial.ts";
import { Pipeline } from "../../governance/controls/pipeline.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import type { ContextMessage } from "../log/message.ts";
import type { ModelCall } from "../models/provider.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import type { RunDeps } from "./deps.ts";
import type { Journal } from "./journal.ts";
import type { RunPlan } from "./plan.ts";
import { UsageMeter } from "./usage-meter.ts";
import { MemoryWaits } from "./waits.ts";

/** Text since the last committed event that a late listener can still be given. */
const liveTextMax = 256 * 1024;

/** On which surfaces somebody waits for the run who could see to a question (decision 90). */
const attended: Readonly<Record<Surface, boolean>> = {
  chat: true,
  chat_stream: true,
  continue: true,
  openai: true,
  openai_stream: true,
  responses: true,
  responses_stream: true,
};

/** A call of a run as the whole tenant knows it; its tool may give it on, so that nothing is done twice. */
export function callKey(runId: string, toolCallId: string): string {
  return `${runId}.${toolCallId}`;
}

/** What the parts of a running turn share: what is asked, what was spent, what was said, and whether to stop. */
export class RunScope {
  readonly plan: RunPlan;
  readonly deps: RunDeps;
  readonly journal: Journal;
  /** What the tenant of the run keeps. */
  readonly store: TenantStore;
  readonly cancellation = new Cancellation();
  readonly budget: RunBudget;
  readonly meter: UsageMeter;
  readonly metrics: AgentMetrics;
  /** What a run without a thread waits for. */
  readonly waits: MemoryWaits;
  /** The requests for approval that the run has waited for; null while there is none. */
  approvals: Set<string> | null = null;
  /** The controls of this run. */
  readonly pipeline: Pipeline;
  /** Why somebody stopped the run; null while nobody has, also when its time was over. */
  abortReason: AbortReason | null = null;
  /** The model call under way. */
  call: ModelCall | null = null;
  /** The route that answered last. */
  route: RunPlan["routes"][number];
  /** References that led to nothing and were told of; null for none. */
  missingFiles: Set<string> | null = null;
  /** The last tool call was refused, so the turn did not do what it set out to do. */
  endedOnDenial = false;
  readonly #output: RunOutput;
  /** What the last model call was shown, and how long the branch was then. */
  #shown: readonly ContextMessage[] = [];
  #shownUpTo: number;
  #liveText = "";
  /** Text that waits for the next beat. */
  #gathered = "";
  #hasSpoken = false;

  constructor(plan: RunPlan, journal: Journal, output: RunOutput, deps: RunDeps) {
    this.plan = plan;
    this.journal = journal;
    this.#output = output;
    this.deps = deps;
    this.store = deps.store.tenant(plan.principal.tenant_id);
    this.route = plan.routes[0] as RunPlan["routes"][number];
    this.#shownUpTo = plan.branch.length;
    const spent = plan.resumed?.spent ?? null;
    this.budget = new RunBudget(plan.agent.limits, plan.startedAt, spent);
    this.meter = new UsageMeter(spent?.usage ?? null);
    this.waits = new MemoryWaits(deps.env);
    this.metrics = new AgentMetrics(deps.metrics, plan.agent);
    if (plan.resumed !== null && plan.resumed.approvals.length > 0) this.approvals = new Set(plan.resumed.approvals);
    const governed: GovernedRun = {
      agent: plan.agent,
      budget: this.budget,
      mask: deps.mask,
      metrics: this.metrics,
      env: deps.env,
      store: this.store,
      threadId: journal.threadId,
      attended: attended[plan.surface],
      callKey: (id) => callKey(plan.run_id, id),
      failed: (err) => deps.log.error({ err, run_id: plan.run_id }, "a control could not judge"),
    };
    this.pipeline = new Pipeline(
      deps.controls.flatMap((make) => make(governed) ?? []),
      () => deps.env.monotonic(),
    );
  }

  /** What was said since the last committed event. */
  get liveText(): { text: string; truncated: boolean } {
    const truncated = this.#liveText.length > liveTextMax;
    return { text: truncated ? "" : this.#liveText, truncated };
  }

  /** Everything that was said is in the log now. */
  committed(): void {
    this.#liveText = "";
  }

  /** Takes text of the model. The first of a turn is passed on at once, and so is all of it while the thread keeps up. */
  say(delta: string): void {
    const isFirst = this.#gathered === "";
    this.#gathered += delta;
    if (!this.deps.pace.isBusy || !this.#hasSpoken) this.passOn();
    else if (isFirst) this.deps.pace.onBeat(() => this.passOn());
  }

  /**
   * Passes on what was gathered: before anything else is said, and before it is written down. Stops reading the model while nobody
   * takes it.
   */
  passOn(): void {
    const delta = this.#gathered;
    if (delta === "") return;
    this.#gathered = "";
    this.#hasSpoken = true;
    if (this.#liveText.length <= liveTextMax) this.#liveText += delta;
    this.#output.text(delta);
    this.journal.publish(() => textFrames(delta));
    if (!this.#output.writable && this.call !== null) {
      const { call } = this;
      call.pause();
      this.#output.onWritable(() => call.resume());
    }
  }

  /** Tells those who listen that the model speaks, when what it says is still held. */
  tellHeld(): void {
    this.passOn();
    const [name, data] = ["session_progress", { phase: "held" }] as const;
    this.#output.frame(name, data, -1);
    this.journal.publish(() => frame(name, data, -1));
  }

  think(delta: string): void {
    this.passOn();
    this.#output.thinking(delta);
    this.journal.publish(() => thinkingFrames(delta));
  }

  /** Sends a structural frame to the one who started the turn. `id` is the sequence number behind the events that it tells of. */
  frame(name: string, data: unknown, id: number = this.journal.durableSeq): void {
    this.passOn();
    this.#output.frame(name, data, id);
  }

  /** Sends a frame to the one who started the turn and to everybody who listens to the thread. */
  frameToAll(name: string, data: unknown): void {
    this.frame(name, data);
    this.journal.publish(() => frame(name, data, this.journal.durableSeq));
  }

  /** Adds messages to the branch. */
  remember(messages: readonly ContextMessage[]): void {
    for (const message of messages) this.plan.branch.push(message);
  }

  /** Notes what a model call is shown. */
  show(messages: readonly ContextMessage[]): void {
    this.#shown = messages;
    this.#shownUpTo = this.plan.branch.length;
  }

  /** What the last model call was shown, and this turn's messages since. */
  answerMessages(): readonly ContextMessage[] {
    const { branch } = this.plan;
    // Without a window the whole branch was shown, and this turn's messages are in it already.
    return this.#shown === branch ? branch : [...this.#shown, ...branch.slice(this.#shownUpTo)];
  }

  /** What is to be written with what the model has said: the rows of what it has used. */
  billing(): WriteOp[] {
    return this.meter.takeOps(this.store);
  }

  /** Audits and counts what a control has refused; `call` is what it was, where it was a call. */
  denied(denial: Denial, call: { readonly tool: string; readonly tool_call_id: string } | null): void {
    this.audit("policy_deny", "denied", denialPayload(denial, call));
    this.metrics.count("svc_policy_deny_total", { policy: denial.rule, tool: call?.tool ?? "" });
  }

  audit(event_type: string, status: string, payload: Readonly<Record<string, unknown>>): void {
    const { principal, agent } = this.plan;
    this.deps.audit.record(principal.tenant_id, {
      event_type,
      status,
      manifest_id: agent.name,
      principal_subj: principal.sub,
      payload: { ...payload, thread_id: this.journal.threadId, request_id: this.plan.request_id },
    });
  }
}
