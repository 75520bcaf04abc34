import type { Timer } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf, isCompaction } from "../../../bus/frames/entry-points.ts";
import { turnStartedFrame } from "../../../bus/frames/frames.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type { AbortReason, AnswerAsAsked, AnswerOutcome, AnswerToWait, InputHint } from "../../../bus/protocol/run.ts";
import type { ParentRun } from "../../../bus/protocol/task.ts";
import { traceFields } from "../../../governance/tracing/tracer.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { LiveRun } from "../../runtime/live-runs.ts";
import type { ToolOpening } from "../../tools/tool-sets.ts";
import { callStopHooks } from "../child-runs/stop-hooks.ts";
import { compactAfterTurn } from "../compaction/compaction-rules.ts";
import { endArtifacts } from "../context/run-artifacts.ts";
import { RunContext } from "../context/run-context.ts";
import type { TaskFamily } from "../context/task-family.ts";
import { askedApprovals } from "../event-log/asked-approvals.ts";
import type { EventLog } from "../event-log/event-log.ts";
import { controlModels } from "../model/control-models.ts";
import { clientMessages } from "../prompt/working-set.ts";
import type { RunSpec, RunStart } from "../spec/run-spec.ts";
import { answeredBefore, type Finished, stopped } from "../steps/endings.ts";
import type { Pattern, PatternDeps } from "../steps/pattern.ts";
import { takeAtEnd } from "../steps/taken-inputs.ts";
import { familyOf } from "../tool-calls/tool-execution.ts";
import { ToolRunner } from "../tool-calls/tool-runner.ts";
import { callDurably } from "./call-durably.ts";
import { callTool } from "./call-tool.ts";
import { compactThread } from "./compact-thread.ts";
import { DurableSteps } from "./durable-steps.ts";
import { atEnd, TurnEnd, writeFailure } from "./turn-end.ts";

// One turn, from its first model call to its last frame. The run actor owns it. Events are stored in the event log before they
// are reported. The run never throws: its output is notified once of its end.

/** How a run left memory: it has ended, it is suspended, or its end could not be written. */
export type RunExit = "finished" | "suspended" | "lost";

/** A live turn, owned by the actor that started it. */
export class Run implements LiveRun {
  slot = -1;
  /** Resolves when no work of the run is left in this process. Never rejects. */
  readonly ended: Promise<RunExit>;
  readonly #runContext: RunContext;
  readonly #output: RunOutput;
  readonly #patterns: PatternDeps["patterns"];
  #deadline: Timer | null = null;
  #unwatched: Timer | null = null;
  /** True while the last batch is being written. A stop has no effect then, unless the run continues afterwards. */
  #isEnding = false;
  /** True while the branch is compacted after the reply. */
  #isTidying = false;
  #lateReason: AbortReason | null = null;
  /** Null for a run that is not durable. */
  readonly #durable: DurableSteps | null;
  /** True after the last attempt of a durable run's step has failed. */
  #isDead = false;

  constructor(start: RunStart, eventLog: EventLog, output: RunOutput, deps: PatternDeps) {
    this.#runContext = new RunContext(start, eventLog, output, deps);
    this.#runContext.controlModels = controlModels;
    this.#output = output;
    this.#patterns = deps.patterns;
    this.#durable = this.#runContext.durableRun && new DurableSteps(this.#runContext, this.#runContext.durableRun);
    deps.liveRuns.add(this);
    this.ended = this.#run(start.tools);
  }

  /** Text since the last committed event, for clients that subscribe now. */
  get liveText(): { text: string; truncated: boolean } {
    return this.#runContext.answerer.stream.live;
  }

  /** True if the run was stopped before its end. */
  get aborted(): boolean {
    return this.stoppedBy !== null;
  }

  /** Why the run was stopped before its last batch; null if it was not. */
  get stoppedBy(): AbortReason | null {
    return this.#runContext.abortReason;
  }

  /** The child tasks of the run; null while it has none. */
  get tasks(): TaskFamily | null {
    return this.#runContext.run.tasks;
  }

  /** The agent that the caller asked. */
  get agent(): CompiledAgent {
    return this.#runContext.spec.agent;
  }

  get isDurable(): boolean {
    return this.#durable !== null;
  }

  /** Asks a durable run to suspend after its current step, so that a drain need not wait for its end. */
  drain(): void {
    this.#runContext.durableRun?.drain();
  }

  /** Writes the usage so far, if it would otherwise be written only at the end. */
  async writeUsage(): Promise<void> {
    await this.#runContext.eventLog.writeUsage();
  }

  /** The task family, for a task that wants budget; null while the run is ending. */
  get taskFamily(): TaskFamily | null {
    return this.#isEnding ? null : familyOf(this.#runContext);
  }

  /** The parent run of a task; null for a run that a caller started. */
  get parent(): ParentRun | null {
    return this.#runContext.spec.parent;
  }

  /** Forwards a question of a child task to the clients of the run. */
  relay(name: string, data: unknown): void {
    this.#runContext.stream.frameInCall(name, data);
  }

  /** Stops the run as soon as possible; `ended` resolves when it has stopped. */
  abort(reason: AbortReason): void {
    if (reason === "shutdown" || reason === "worker_lost") this.#runContext.durableRun?.cut();
    if (this.#isEnding) {
      // The reply is durable. A stop now only cancels the compaction after it.
      if (this.#isTidying) this.#runContext.cancellation.cancel();
      this.#lateReason ??= reason;
      return;
    }
    this.#runContext.run.abortReason ??= reason;
    this.#runContext.cancellation.cancel();
  }

  /**
   * Stops the run if its caller or its manifest is frozen. A durable run is suspended instead; its model call is cancelled and will be
   * repeated.
   */
  obeyFreezes(): void {
    const { deps, spec, stream, durableRun, run } = this.#runContext;
    if (!deps.freezes.stopsRun(spec.principal.tenant_id, spec.principal.sub, spec.agent.name)) return;
    if (durableRun === null) {
      this.abort("frozen");
      return;
    }
    run.isFrozen = true;
    durableRun.drain();
    stream.call?.abort();
  }

  /** Input is queued for the run. */
  steered(hint: InputHint): void {
    this.#runContext.steering.hinted(hint);
  }

  /** Stops a run whose actor has crashed. Calls `left` when the thread may close the run. */
  crashed(left: () => void): void {
    this.abort("worker_lost");
    // A durable run leaves its thread itself, after it has reported its usage.
    if (!this.isDurable) left();
  }

  /** Answers a wait of a run without a thread. */
  answer(answer: AnswerToWait | AnswerAsAsked): AnswerOutcome {
    return this.#runContext.run.waits.answer(answer);
  }

  /** Checks the stored waits of a run without a thread for answers. */
  look(): Promise<void> {
    return this.#runContext.run.waits.look(this.#runContext.store);
  }

  /** The client that started the run has disconnected. The run continues for `detachedRunSeconds`, or to its end if that is null. */
  detach(): void {
    const { deps } = this.#runContext;
    const seconds = deps.settings.detachedRunSeconds;
    if (seconds === 0) this.abort("detached");
    else if (seconds !== null) this.#unwatched ??= deps.env.timer(seconds * 1000, () => this.abort("detached"));
  }

  /** The phases of a turn: begin, run the pattern until there is an ending, then leave, suspend, retry, or write the end. */
  async #run(opening: ToolOpening | null): Promise<RunExit> {
    const exit = await this.#work(opening);
    this.#runContext.endSpan(exit);
    return exit;
  }

  async #work(opening: ToolOpening | null): Promise<RunExit> {
    const { deps, spec, run } = this.#runContext;
    // The handler of the actor returns before the first frame and the first model call.
    await null;
    this.#startClock();
    try {
      this.#announceStart();
      this.obeyFreezes();
      const isStopped = opening !== null && !(await this.#openTools(opening));
      const loop = this.#loop;
      const tools = new ToolRunner(this.#runContext);
      // The log of a resumed run may contain its answer without its end.
      let earlier = spec.resumed && answeredBefore(spec.resumed);
      // A resumed run may have open calls, which its loop closes.
      if (isStopped && spec.resumed === null) earlier = stopped(this.#runContext, "");
      for (;;) {
        const ending = earlier ?? (await loop(this.#runContext, tools));
        earlier = null;
        if (this.#durable?.isCut) return this.#durable.leave();
        if (ending.kind === "suspended") await this.#suspend();
        else if (this.#durable !== null && (await this.#triesAgain(this.#durable, ending))) return "suspended";
        else if (!(await this.#finish(ending))) continue;
        return ending.kind;
      }
    } catch (error) {
      return await this.#fail(error);
    } finally {
      this.#deadline?.cancel();
      this.#unwatched?.cancel();
      run.tasks?.close();
      endArtifacts(this.#runContext);
      deps.liveRuns.delete(this);
    }
  }

  /** Starts the wall-clock limit of the run. */
  #startClock(): void {
    const { deps, cancellation, billing } = this.#runContext;
    const leftMs = Math.max(0, billing.budget.deadline - deps.env.monotonic());
    this.#deadline = deps.env.timer(leftMs, () => cancellation.cancel());
  }

  /**
   * Opens the tool sources of the accepted run. Returns false if the run was stopped in the meantime.
   */
  async #openTools(opening: ToolOpening): Promise<boolean> {
    const opened = opening();
    opened.then(
      ({ close }) => void this.ended.then(close),
      () => {},
    );
    const tools = await this.#runContext.cancellation.orStopped(opened);
    if (tools !== null) this.#runContext.equip(tools.agent);
    return tools !== null;
  }

  #announceStart(): void {
    const { spec, stream } = this.#runContext;
    const { userText } = spec;
    if (userText !== null) this.#runContext.audit("user_input", "ok", { user_input: userText.slice(0, 2000) });
    if (spec.resumed === null) this.#output.started();
    if (!isCompaction(spec)) stream.publish(() => turnStartedFrame);
    if (this.#durable === null) this.#runContext.tellStatus("running");
    else this.#durable.tell("running");
  }

  /** The loop of the agent's pattern. A compaction and a single call have their own. */
  get #loop(): Pattern {
    const { spec } = this.#runContext;
    const { pattern } = spec.agent.manifest.spec;
    const { work } = entryPointOf(spec.surface);
    const call = this.#durable === null ? callTool : callDurably;
    const own = work === "compaction" ? compactThread : work === "call" ? call : null;
    const loop = own ?? this.#patterns.get(pattern);
    if (!loop) throw new Error(`no pattern is called ${pattern}`);
    return loop;
  }

  /** Ends a run after a refusal or a defect. */
  async #fail(error: unknown): Promise<RunExit> {
    const { deps, spec, metrics } = this.#runContext;
    const refusal = SvcError.from(error);
    if (this.#durable !== null) {
      const exit = await this.#durable.failed(error);
      if (exit === "finished") this.#output.failed(refusal);
      return exit;
    }
    deps.log.error({ err: error, run_id: spec.run_id, ...traceFields(spec.trace) }, "run failed");
    metrics.count("svc_runs_total", { outcome: "failed" });
    const written = error instanceof SvcError && (await writeFailure(this.#runContext, error, this.#output));
    this.#output.failed(refusal);
    this.#runContext.tellStatus("failed");
    return written ? "finished" : "lost";
  }

  /** Suspends the run, and stores its usage in the same batch. */
  async #suspend(): Promise<void> {
    const { eventLog, mode, run } = this.#runContext;
    const { budget, meter } = this.#runContext.billing;
    // A sub-agent may have stopped before a task of a parallel sub-agent was resumed.
    await run.tasks?.rest();
    // A run that was stopped by now is suspended too. The run that resumes it for the stop closes its calls.
    this.#isEnding = true;
    if (this.#durable !== null) return this.#durable.suspend();
    const used = { ...budget.spent, permission_mode: mode, usage: meter.total, ...run.keptAside };
    await eventLog.suspend(used, this.#runContext.billing.tree?.lastOps() ?? none);
    this.#runContext.tellStatus("waiting", run.waitingOn?.kind ?? null);
  }

  /** Suspends a durable run whose model call has failed, to retry it. False if the ending is final. */
  async #triesAgain(steps: DurableSteps, ending: Finished): Promise<boolean> {
    const isPutOff = this.#runContext.run.isFrozen && !ending.ok && ending.failure !== null && !this.aborted;
    if (isPutOff) {
      this.#isEnding = true;
      await steps.putOff("frozen", false);
      return true;
    }
    const verdict = steps.verdictOn(ending);
    this.#isDead = verdict === "dead";
    if (verdict !== "again") return false;
    this.#isEnding = true;
    await steps.putOff(ending.failure ?? "");
    return true;
  }

  /** Stores the reply, then compacts the branch so that the next turn starts faster. Returns the ending without the stored entries. */
  async #tidy(ending: Finished): Promise<Finished> {
    const runContext = this.#runContext;
    await runContext.eventLog.append(ending.entries, runContext.billing.ops());
    runContext.committed();
    this.#isTidying = true;
    await compactAfterTurn(runContext);
    this.#isTidying = false;
    return { ...ending, entries: [] };
  }

  /** Stores the answer and starts another turn with the queued input. Returns true if the run was stopped, so that it has ended. */
  async #continueWithInput(ending: Finished, billed: readonly WriteOp[]): Promise<boolean> {
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
    // The failed last attempt of a dead run leaves no entries: no other run could resume from them.
    const ending = this.#isDead ? { ...kept, entries: [] } : kept;
    const { approvals: asked } = runContext.run;
    const approvals = asked === null ? none : await askedApprovals(runContext.store, asked);
    const end = new TurnEnd(runContext, ending, {
      output: this.#output,
      messagesJson,
      approvals,
      isDead: this.#isDead,
    });
    if (!(await end.write())) return this.#continueWithInput(ending, end.billed);
    runContext.committed();
    if (this.#durable === null) runContext.tellStatus(end.status);
    else this.#durable.tell(end.status);
    runContext.durableRun?.announceEnd();
    end.report();
    void callStopHooks(runContext, ending);
    return true;
  }
}

/** True if the branch is compacted between the reply and the end of the run. */
function isCompactedAfter(spec: RunSpec): boolean {
  const { context } = spec.agent;
  return context.compact_after_turn && context.compaction_enabled && !isCompaction(spec) && spec.thread_key >= 0;
}

const none: readonly never[] = [];
