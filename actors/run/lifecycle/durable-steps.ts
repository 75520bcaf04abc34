import { SvcError } from "../../../bus/errors.ts";
import { frame } from "../../../bus/frames/frames.ts";
import { statusFrame, type WaitingOn } from "../../../bus/frames/run-status.ts";
import type { RunSpent } from "../../../storage/tables/runs.ts";
import { interruptedEntry } from "../../log/entry.ts";
import { refusedTask } from "../child-runs/parent-report.ts";
import type { RunContext } from "../context/run-context.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { Finished } from "../steps/endings.ts";
import { leftWaits } from "../tool-calls/left-waits.ts";

/** What becomes of a step of a durable run that has failed: it is tried again, or was tried as often as it may be. */
export type StepVerdict = "again" | "dead" | null;

/** What a durable run does where another one ends: its steps are tried again, and those who listen are told where it stands. */
export class DurableSteps {
  readonly #runContext: RunContext;
  readonly #durableRun: DurableRun;

  constructor(runContext: RunContext, durableRun: DurableRun) {
    this.#runContext = runContext;
    this.#durableRun = durableRun;
    durableRun.bind(() => this.spent);
  }

  /** What the run has used by now, and where it is. */
  get spent(): RunSpent {
    const { mode, run } = this.#runContext;
    const { budget, meter } = this.#runContext.billing;
    const { number: step } = this.#runContext.step;
    const active_ms = this.#durableRun.activeMs;
    const { spent } = budget;
    // What goes on with the run counts those calls again of which nothing is in the log.
    const tool_calls = spent.tool_calls - run.admitting;
    const used = { ...spent, tool_calls, permission_mode: mode, usage: meter.total, ...run.keptAside };
    return { ...used, step, active_ms };
  }

  /** Tells those who listen to its thread where it stands. */
  tell(status: string, attempt: number = this.#durableRun.attempts, waiting_on: WaitingOn | null = null): void {
    const { spec, deps } = this.#runContext;
    const { number: step } = this.#runContext.step;
    const { run_id } = spec;
    this.#runContext.stream.publish(() =>
      statusFrame({ run_id, status, attempt, step, waiting_on, updated_at: deps.env.now() }),
    );
  }

  /** Puts the run aside: all that it has is in the store. */
  async suspend(): Promise<void> {
    const { eventLog, run } = this.#runContext;
    await eventLog.suspend(this.spent, [
      ...this.#durableRun.suspendOps(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    this.tell("waiting", this.#durableRun.attempts, this.#durableRun.givesWay ? null : run.waitingOn);
  }

  /** What an ending means: a model call that has failed is tried again. Null for every ending that stands. */
  verdictOn({ mayPass, failure }: Finished): StepVerdict {
    if (!mayPass || failure === null || this.#runContext.abortReason !== null) return null;
    return this.#hasTries ? "again" : "dead";
  }

  /** Puts the run aside, to try its step again in a while. */
  async putOff(why: string): Promise<void> {
    const { eventLog, deps, spec } = this.#runContext;
    const until = deps.env.now() + this.#durableRun.backOffMs;
    await eventLog.suspend(this.spent, [
      ...this.#durableRun.putOffOps(),
      ...this.#runContext.billing.ops(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    this.#runContext.stream.publish(() => frame("on_error", { message: why }, -1));
    this.tell("waiting", this.#durableRun.attempts + 1, { kind: "retry", id: spec.run_id, until });
  }

  /** Whether the run is to leave, and nothing of its step is written any more. */
  get isCut(): boolean {
    return this.#durableRun.isCut;
  }

  /** Leaves a step that was cut off: what it has used is on its way to the store when the run is gone, and nobody waits for it. */
  leave(): "lost" {
    this.#runContext.eventLog.cutOff?.([
      ...this.#durableRun.cutOps(),
      ...this.#runContext.billing.usageOps(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    return "lost";
  }

  /**
   * The run has met what nobody has foreseen, or has lost its store. `suspended` when it tries again, `lost` when that could not be
   * written: then its thread goes on with it.
   */
  async failed(error: unknown): Promise<"finished" | "suspended" | "lost"> {
    const { deps, spec, eventLog } = this.#runContext;
    const { meter } = this.#runContext.billing;
    if (this.isCut) return this.leave();
    deps.log.error({ err: error, run_id: spec.run_id }, "the step of a durable run failed");
    const { code } = SvcError.from(error);
    try {
      if (this.#hasTries) {
        await this.putOff(code);
        return "suspended";
      }
      const task = spec.parent && { task: refusedTask(code, meter.total) };
      const ending = { status: "dead", stop_reason: null, error: code, usage: meter.total, ...task } as const;
      const left = await leftWaits(this.#runContext);
      const ops = () => [
        ...left.ops,
        ...this.#durableRun.endOps({ status: "dead", final: null, error: code }),
        ...(this.#runContext.billing.tree?.lastOps() ?? []),
        ...this.#durableRun.leaveOps(),
      ];
      await eventLog.end([interruptedEntry(spec.run_id, code)], ops, ending, null);
      left.stopTasks();
      this.tell("dead", this.#durableRun.attempts + 1);
      this.#durableRun.announceEnd();
      return "finished";
    } catch {
      return "lost";
    }
  }

  get #hasTries(): boolean {
    return this.#durableRun.attempts + 1 < this.#runContext.deps.settings.durableMaxAttempts;
  }
}
