import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { turnStartedFrame } from "../../bus/frames/frames.ts";
import type { RunOutput, RunResult } from "../../bus/frames/output.ts";
import type { AbortReason, AnswerOutcome, AnswerToWait } from "../../bus/protocol/run.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import { interruptedEntry } from "../log/entry.ts";
import { askedApprovals } from "./asked-approvals.ts";
import { clientMessages } from "./context/working-set.ts";
import type { Finished } from "./endings.ts";
import type { Journal } from "./journal.ts";
import type { PatternDeps } from "./pattern.ts";
import type { RunPlan } from "./plan.ts";
import { RunScope } from "./scope.ts";
import { settleOps } from "./settlement.ts";
import { ToolRunner } from "./tool-runner.ts";

// One turn, from its first model call to its last frame. The run is a task that its actor owns. It writes to the journal
// before it says that something has happened, and it never throws: whatever happens, its output is told how it ended, once.

/** How a run has left: it is over and was told so, it is put aside, or its end could not be written. */
export type RunExit = "finished" | "suspended" | "lost";

/** One turn on its way, owned by the actor that started it. */
export class Run {
  /** Resolves when nothing of the run goes on here. Never rejects. */
  readonly ended: Promise<RunExit>;
  readonly #scope: RunScope;
  readonly #output: RunOutput;
  readonly #patterns: PatternDeps["patterns"];
  #deadline: Timer | null = null;
  #unwatched: Timer | null = null;
  /** The last batch is on its way: what stops a run comes too late. */
  #isEnding = false;

  constructor(plan: RunPlan, journal: Journal, output: RunOutput, deps: PatternDeps) {
    this.#scope = new RunScope(plan, journal, output, deps);
    this.#output = output;
    this.#patterns = deps.patterns;
    deps.liveRuns.add(this);
    this.ended = this.#run();
  }

  /** What the run has said since the last committed event, for those who come to listen now. */
  get liveText(): { text: string; truncated: boolean } {
    return this.#scope.liveText;
  }

  /** Whether somebody has stopped the run before it was over. */
  get aborted(): boolean {
    return this.#scope.abortReason !== null;
  }

  /** Stops the run as soon as it can be stopped; `ended` says when that was. */
  abort(reason: AbortReason): void {
    if (this.#isEnding) return;
    this.#scope.abortReason ??= reason;
    this.#scope.cancellation.cancel();
  }

  /** Answers what a run without a thread waits for. */
  answer(answer: AnswerToWait): AnswerOutcome {
    return this.#scope.waits.answer(answer);
  }

  /** Something that a run without a thread waits for may have come. */
  look(): Promise<void> {
    return this.#scope.waits.look(this.#scope.store);
  }

  /** The client that started the run is gone. The run goes on as long as it may with nobody watching. */
  detach(): void {
    const { deps } = this.#scope;
    const seconds = deps.settings.detachedRunSeconds;
    if (seconds === 0) this.abort("detached");
    else if (seconds !== null) this.#unwatched ??= deps.env.timer(seconds * 1000, () => this.abort("detached"));
  }

  async #run(): Promise<RunExit> {
    const { deps, plan, journal, cancellation, budget, metrics } = this.#scope;
    // The actor finishes its own step before the first frame and the first model call.
    await null;
    this.#deadline = deps.env.timer(Math.max(0, budget.deadline - deps.env.now()), () => cancellation.cancel());
    try {
      if (plan.userText !== null) this.#scope.audit("user_input", "ok", { user_input: plan.userText.slice(0, 2000) });
      if (plan.resumed === null) this.#output.started();
      journal.publish(() => turnStartedFrame);
      const { pattern } = plan.agent.manifest.spec;
      const loop = this.#patterns.get(pattern);
      if (!loop) throw new Error(`no pattern is called ${pattern}`);
      const ending = await loop(this.#scope, new ToolRunner(this.#scope));
      if (ending.kind === "suspended") await this.#park();
      else await this.#finish(ending);
      return ending.kind;
    } catch (error) {
      const refusal = SvcError.from(error);
      deps.log.error({ err: error, run_id: plan.run_id }, "run failed");
      metrics.count("svc_runs_total", { outcome: "failed" });
      const written = error instanceof SvcError && (await this.#writeFailure(error));
      this.#output.failed(refusal);
      return written ? "finished" : "lost";
    } finally {
      this.#deadline.cancel();
      this.#unwatched?.cancel();
      deps.liveRuns.delete(this);
    }
  }

  /** Closes the turn in the log when it was refused something on the way. False when the log does not take it. */
  async #writeFailure(error: SvcError): Promise<boolean> {
    const { plan, journal } = this.#scope;
    const usage = this.#scope.meter.total;
    const billed = this.#scope.billing();
    const settled = () => settleOps(this.#scope.store, plan, { kind: "failed", error }, journal.nextSeq + 1);
    try {
      await journal.end([interruptedEntry(plan.run_id, error.code)], () => [...billed, ...settled()], {
        status: "failed",
        stop_reason: null,
        error: error.code,
        usage,
      });
      return true;
    } catch {
      return false;
    }
  }

  /** Puts the run aside: all that it has is in the store. */
  async #park(): Promise<void> {
    const { budget, meter, journal } = this.#scope;
    this.#isEnding = true;
    await journal.park({ ...budget.spent, usage: meter.total });
  }

  /** Writes the last batch, then tells how the turn ended. */
  async #finish(ending: Finished): Promise<void> {
    const scope = this.#scope;
    const { plan, journal, deps, metrics } = scope;
    scope.passOn();
    this.#isEnding = true;
    const interrupted = scope.abortReason === "shutdown";
    const aborted = this.aborted;
    const count = ending.entries.length;
    const told: Omit<RunResult, "leaf_id"> = {
      final: ending.final,
      messagesJson: clientMessages(scope.answerMessages()),
      stop_reason: ending.stop_reason,
      usage: scope.meter.total,
      model: scope.route.id,
      thread_id: journal.threadId,
      aborted,
      failure: ending.failure,
      approvals: scope.approvals === null ? [] : await askedApprovals(scope.store, scope.approvals),
    };
    let result: RunResult = { ...told, leaf_id: "" };
    // An Error takes its stack trace when it is made: not in every turn.
    const stopping = interrupted ? new SvcError("shutting_down") : null;
    const settled = (): WriteOp[] => {
      result = { ...told, leaf_id: journal.leafIdAfter(count) };
      const outcome = stopping ? { kind: "failed" as const, error: stopping } : { kind: "finished" as const, result };
      return settleOps(scope.store, plan, outcome, journal.nextSeq + count);
    };
    const billed = scope.billing();
    const label = outcomeLabel(ending, scope.abortReason);
    const isDone = label === "ok" || label === "limited";
    await journal.end(ending.entries, () => [...billed, ...settled()], {
      status: isDone ? "completed" : "failed",
      stop_reason: ending.stop_reason,
      error: isDone ? null : label,
      usage: scope.meter.total,
    });
    scope.committed();

    if (ending.stop_reason === "max_turns") scope.frame("max_turns", { limit: plan.agent.recursion_limit });
    if (aborted) scope.frame("aborted", { thread_id: journal.threadId });
    scope.audit("final_response", ending.ok ? "ok" : "error", {
      chars: ending.final?.length ?? 0,
      stop_reason: ending.stop_reason,
      model: scope.route.id,
      latency_ms: deps.env.now() - plan.startedAt,
    });
    if (["max_tokens", "refusal", "max_turns"].includes(ending.stop_reason))
      metrics.count("svc_run_stop_reason_total", { reason: ending.stop_reason });
    metrics.count("svc_runs_total", { outcome: label });
    if (stopping) this.#output.failed(stopping);
    else this.#output.finished(result, journal.durableSeq);
  }
}

function outcomeLabel(ending: Finished, abortReason: AbortReason | null): string {
  if (abortReason !== null) return abortReason === "shutdown" ? "interrupted" : "aborted";
  if (ending.failure !== null) return "model_failed";
  return ending.ok ? "ok" : "limited";
}
