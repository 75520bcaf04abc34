import type { Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { turnStartedFrame } from "../../../bus/frames/frames.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type {
  AbortReason,
  AnswerAsAsked,
  AnswerOutcome,
  AnswerToWait,
  BudgetUsed,
  InputHint,
  ParentRun,
} from "../../../bus/protocol/run.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { LiveRun } from "../../runtime/live-runs.ts";
import { compactAfterTurn } from "../compaction/compaction-rules.ts";
import { RunContext } from "../context/run-context.ts";
import type { TaskFamily } from "../context/task-family.ts";
import { askedApprovals } from "../event-log/asked-approvals.ts";
import type { EventLog } from "../event-log/event-log.ts";
import { clientMessages } from "../prompt/working-set.ts";
import type { RunSpec, RunStart } from "../spec/run-spec.ts";
import { answeredBefore, type Finished } from "../steps/endings.ts";
import type { Pattern, PatternDeps } from "../steps/pattern.ts";
import { takeAtEnd } from "../steps/taken-inputs.ts";
import { familyOf } from "../tool-calls/tool-execution.ts";
import { ToolRunner } from "../tool-calls/tool-runner.ts";
import { compactThread } from "./compact-thread.ts";
import { DurableSteps } from "./durable-steps.ts";
import { atEnd, TurnEnd, writeFailure } from "./turn-end.ts";

// One turn, from its first model call to its last frame. The run is a task that its actor owns. It writes to the event log
// before it says that something has happened, and it never throws: whatever happens, its output is told how it ended, once.

/** How a run has left: it is over and was told so, it is put aside, or its end could not be written. */
export type RunExit = "finished" | "suspended" | "lost";

/** One turn on its way, owned by the actor that started it. */
export class Run implements LiveRun {
  slot = -1;
  /** Resolves when nothing of the run goes on here. Never rejects. */
  readonly ended: Promise<RunExit>;
  readonly #runContext: RunContext;
  readonly #output: RunOutput;
  readonly #patterns: PatternDeps["patterns"];
  #deadline: Timer | null = null;
  #unwatched: Timer | null = null;
  /** The last batch is on its way: what stops a run comes too late, unless the run has to go on. */
  #isEnding = false;
  /** The branch is compacted after the turn. */
  #isTidying = false;
  #lateReason: AbortReason | null = null;
  /** Null for every run that is not durable. */
  readonly #durable: DurableSteps | null;
  /** The step of a durable run has failed as often as it may. */
  #isDead = false;

  constructor(start: RunStart, eventLog: EventLog, output: RunOutput, deps: PatternDeps) {
    this.#runContext = new RunContext(start, eventLog, output, deps);
    this.#output = output;
    this.#patterns = deps.patterns;
    this.#durable = this.#runContext.durableRun && new DurableSteps(this.#runContext, this.#runContext.durableRun);
    deps.liveRuns.add(this);
    this.ended = this.#run();
  }

  /** What the run has said since the last committed event, for those who come to listen now. */
  get liveText(): { text: string; truncated: boolean } {
    return this.#runContext.answerer.stream.live;
  }

  /** Whether somebody has stopped the run before it was over. */
  get aborted(): boolean {
    return this.stoppedBy !== null;
  }

  /** What has stopped the run before its last batch was on its way; null for nothing. */
  get stoppedBy(): AbortReason | null {
    return this.#runContext.abortReason;
  }

  /** The tasks that it has handed out; null while there are none. */
  get tasks(): TaskFamily | null {
    return this.#runContext.run.tasks;
  }

  get isDurable(): boolean {
    return this.#durable !== null;
  }

  /** Whether a drain need not wait for the run: a durable one goes on in the next process, behind the step that it is at. */
  drain(): void {
    this.#runContext.durableRun?.drain();
  }

  /** Writes what the run has used so far, where that would wait for its end. */
  async writeUsage(): Promise<void> {
    await this.#runContext.eventLog.writeUsage?.();
  }

  /** The tasks, for one of them that wants to use something; null when the run is on its way out. */
  get taskFamily(): TaskFamily | null {
    return this.#isEnding ? null : familyOf(this.#runContext);
  }

  /** The run that has handed out this one; null for one that a caller has asked for. */
  get parent(): ParentRun | null {
    return this.#runContext.spec.parent;
  }

  /** Tells those who hear the run what a task asks. */
  relay(name: string, data: unknown): void {
    this.#runContext.stream.frameInCall(name, data);
  }

  /** Stops the run as soon as it can be stopped; `ended` says when that was. */
  abort(reason: AbortReason): void {
    if (reason === "shutdown" || reason === "worker_lost") this.#runContext.durableRun?.cut();
    if (this.#isEnding) {
      // The turn has its reply; what stops now is only what is done after it.
      if (this.#isTidying) this.#runContext.cancellation.cancel();
      this.#lateReason ??= reason;
      return;
    }
    this.#runContext.run.abortReason ??= reason;
    this.#runContext.cancellation.cancel();
  }

  /** Something waits for the run. */
  steered(hint: InputHint): void {
    this.#runContext.steering.hinted(hint);
  }

  /** Takes back what a task was lent. */
  repay(reservationId: string, used: BudgetUsed): void {
    this.tasks?.repay(reservationId, used);
  }

  /** Stops a run whose actor has crashed: `left` is called when its thread may close it, which writes what its tasks have used. */
  crashed(left: () => void): void {
    this.abort("worker_lost");
    // A durable run leaves its thread itself, when it has said what it has used.
    if (this.isDurable) return;
    if (this.tasks?.isAtWork === true) void this.#settleTasks().then(left);
    else left();
  }

  /** Answers what a run without a thread waits for. */
  answer(answer: AnswerToWait | AnswerAsAsked): AnswerOutcome {
    return this.#runContext.run.waits.answer(answer);
  }

  /** Something that a run without a thread waits for may have come. */
  look(): Promise<void> {
    return this.#runContext.run.waits.look(this.#runContext.store);
  }

  /** The client that started the run is gone. The run goes on as long as it may with nobody watching. */
  detach(): void {
    const { deps } = this.#runContext;
    const seconds = deps.settings.detachedRunSeconds;
    if (seconds === 0) this.abort("detached");
    else if (seconds !== null) this.#unwatched ??= deps.env.timer(seconds * 1000, () => this.abort("detached"));
  }

  /** The phases of a turn: begin, run the pattern until there is an ending, then leave, suspend, retry, or write the end. */
  async #run(): Promise<RunExit> {
    const { deps, spec, run } = this.#runContext;
    // The actor finishes its own step before the first frame and the first model call.
    await null;
    this.#startClock();
    try {
      this.#announceStart();
      const loop = this.#loop;
      const tools = new ToolRunner(this.#runContext);
      // A resumed run may have stored its answer, and not its end.
      let earlier = spec.resumed && answeredBefore(spec.resumed);
      for (;;) {
        const ending = earlier ?? (await loop(this.#runContext, tools));
        earlier = null;
        await this.#settleTasks();
        if (this.#durable?.isCut) return this.#durable.leave();
        if (ending.kind === "suspended") await this.#suspend();
        else if (this.#durable !== null && (await this.#triesAgain(this.#durable, ending))) return "suspended";
        else if (!(await this.#finish(ending))) continue;
        return ending.kind;
      }
    } catch (error) {
      await this.#settleTasks();
      return await this.#fail(error);
    } finally {
      this.#deadline?.cancel();
      this.#unwatched?.cancel();
      run.tasks?.close();
      deps.liveRuns.delete(this);
    }
  }

  /** From here on the wall clock of the run's limits counts. */
  #startClock(): void {
    const { deps, cancellation, billing } = this.#runContext;
    const leftMs = Math.max(0, billing.budget.deadline - deps.env.monotonic());
    this.#deadline = deps.env.timer(leftMs, () => cancellation.cancel());
  }

  #announceStart(): void {
    const { spec, stream } = this.#runContext;
    const { userText } = spec;
    if (userText !== null) this.#runContext.audit("user_input", "ok", { user_input: userText.slice(0, 2000) });
    if (spec.resumed === null) this.#output.started();
    if (spec.surface !== "compact") stream.publish(() => turnStartedFrame);
    this.#durable?.tell("running");
  }

  /** The pattern of the agent; POST /chat/compact has a loop of its own. */
  get #loop(): Pattern {
    const { spec } = this.#runContext;
    const { pattern } = spec.agent.manifest.spec;
    const loop = spec.surface === "compact" ? compactThread : this.#patterns.get(pattern);
    if (!loop) throw new Error(`no pattern is called ${pattern}`);
    return loop;
  }

  /** Ends a run that something was refused to, or that has met a defect. */
  async #fail(error: unknown): Promise<RunExit> {
    const { deps, spec, metrics } = this.#runContext;
    const refusal = SvcError.from(error);
    if (this.#durable !== null) {
      const exit = await this.#durable.failed(error);
      if (exit === "finished") this.#output.failed(refusal);
      return exit;
    }
    deps.log.error({ err: error, run_id: spec.run_id }, "run failed");
    metrics.count("svc_runs_total", { outcome: "failed" });
    const written = error instanceof SvcError && (await writeFailure(this.#runContext, error, this.#output));
    this.#output.failed(refusal);
    return written ? "finished" : "lost";
  }

  /**
   * Waits for the last usage report of child tasks, where a parent that shares its budget, or the process that resumes this run, needs it.
   * Stopping a run stops its tasks. A resumed run may also end beside a task whose call an earlier process has closed.
   */
  async #settleTasks(): Promise<void> {
    const { abortReason, run, spec } = this.#runContext;
    const { tree } = this.#runContext.billing;
    const counts = tree?.isShared === true || spec.parent !== null || this.#runContext.durableRun?.isCut === true;
    if (abortReason !== "shutdown" && !counts) return;
    await run.tasks?.settled();
    // The end of the run gives back what is set aside: what was used of it comes first.
    await tree?.flushed;
  }

  /** Puts the run aside: all that it has is in the store. */
  async #suspend(): Promise<void> {
    const { eventLog, mode, run } = this.#runContext;
    const { budget, meter } = this.#runContext.billing;
    // Of sub-agents that work side by side one may have rested before a task of another came back.
    await run.tasks?.rest();
    // One that was stopped meanwhile is put aside all the same, and ended by who takes it up for that: its calls get their results there.
    await this.#settleTasks();
    this.#isEnding = true;
    if (this.#durable !== null) return this.#durable.suspend();
    const used = { ...budget.spent, permission_mode: mode, usage: meter.total, ...run.keptAside };
    await eventLog.suspend(used, this.#runContext.billing.tree?.lastOps() ?? none);
  }

  /** Puts a durable run aside whose model call has failed, to try it again. False when the ending stands. */
  async #triesAgain(steps: DurableSteps, ending: Finished): Promise<boolean> {
    const verdict = steps.verdictOn(ending);
    this.#isDead = verdict === "dead";
    if (verdict !== "again") return false;
    this.#isEnding = true;
    await steps.putOff(ending.failure ?? "");
    return true;
  }

  /** Makes the reply durable, and the next turn's way to the model shorter. What is then left to be written. */
  async #tidy(ending: Finished): Promise<Finished> {
    const runContext = this.#runContext;
    await runContext.eventLog.append(ending.entries, runContext.billing.ops());
    runContext.committed();
    this.#isTidying = true;
    await compactAfterTurn(runContext);
    this.#isTidying = false;
    return { ...ending, entries: [] };
  }

  /** Keeps the answer, and takes what was said to the run meanwhile. True when the run is over all the same, since it was stopped. */
  async #goOn(ending: Finished, billed: readonly WriteOp[]): Promise<boolean> {
    const runContext = this.#runContext;
    await runContext.eventLog.append(ending.entries, billed);
    runContext.committed();
    this.#isEnding = false;
    if (this.#lateReason !== null) this.abort(this.#lateReason);
    if (!runContext.cancellation.cancelled) {
      runContext.step.beginTurn();
      await takeAtEnd(runContext, atEnd(runContext));
      return false;
    }
    return this.#finish({ ...ending, entries: [], isAnswer: false });
  }

  /** Writes the last batch, then reports the end. False when the run continues: input for it has arrived. */
  async #finish(ended: Finished): Promise<boolean> {
    const runContext = this.#runContext;
    runContext.stream.flush();
    this.#isEnding = true;
    const messagesJson = clientMessages(runContext.answerer.branch.answerMessages);
    const kept = isCompactedAfter(runContext.spec) && ended.ok ? await this.#tidy(ended) : ended;
    // The text of the step that has failed for the last time is no step that another run could resume from.
    const ending = this.#isDead ? { ...kept, entries: [] } : kept;
    const { approvals: asked } = runContext.run;
    const approvals = asked === null ? none : await askedApprovals(runContext.store, asked);
    const end = new TurnEnd(runContext, ending, {
      output: this.#output,
      messagesJson,
      approvals,
      isDead: this.#isDead,
    });
    if (!(await end.write())) return this.#goOn(ending, end.billed);
    runContext.committed();
    this.#durable?.tell(end.status);
    runContext.durableRun?.announceEnd();
    end.report();
    return true;
  }
}

/** Whether the branch is compacted between the reply and the end of the run. */
function isCompactedAfter({ agent: { context }, surface, thread_key }: RunSpec): boolean {
  return context.compact_after_turn && context.compaction_enabled && surface !== "compact" && thread_key >= 0;
}

const none: readonly never[] = [];
