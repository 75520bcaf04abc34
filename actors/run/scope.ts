import { frame, textFrames, thinkingFrames } from "../../bus/frames/frames.ts";
import type { RunOutput } from "../../bus/frames/output.ts";
import type { AbortReason } from "../../bus/protocol/thread.ts";
import { RunBudget } from "../../governance/budget.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { ModelCall } from "../models/provider.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import { AgentMetrics } from "./agent-metrics.ts";
import type { ContextMessage } from "./context/message.ts";
import type { RunDeps } from "./deps.ts";
import type { Journal } from "./journal.ts";
import type { RunPlan } from "./plan.ts";
import { UsageMeter } from "./usage-meter.ts";

/** Text since the last committed event that a late listener can still be given. */
const liveTextMax = 256 * 1024;

/** What the parts of a running turn share: what is asked, what was spent, what was said, and whether to stop. */
export class RunScope {
  readonly plan: RunPlan;
  readonly deps: RunDeps;
  readonly journal: Journal;
  readonly cancellation = new Cancellation();
  readonly budget: RunBudget;
  readonly meter = new UsageMeter();
  readonly metrics: AgentMetrics;
  /** Why somebody stopped the run; null while nobody has, also when its time was over. */
  abortReason: AbortReason | null = null;
  /** The model call under way. */
  call: ModelCall | null = null;
  /** The route that answered last. */
  route: RunPlan["routes"][number];
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
    this.route = plan.routes[0] as RunPlan["routes"][number];
    this.#shownUpTo = plan.branch.length;
    this.budget = new RunBudget(plan.agent.limits, plan.startedAt);
    this.metrics = new AgentMetrics(deps.metrics, plan.agent);
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

  think(delta: string): void {
    this.passOn();
    this.#output.thinking(delta);
    this.journal.publish(() => thinkingFrames(delta));
  }

  /** Sends a structural frame to the one who started the turn. */
  frame(name: string, data: unknown): void {
    this.passOn();
    this.#output.frame(name, data, this.journal.durableSeq);
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
    return this.meter.takeOps(this.deps.store.tenant(this.plan.principal.tenant_id));
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
