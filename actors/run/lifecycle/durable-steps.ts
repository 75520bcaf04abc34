import { SvcError } from "../../../bus/errors.ts";
import { frame } from "../../../bus/frames/frames.ts";
import { statusFrame, type WaitingOn } from "../../../bus/frames/run-status.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import { interruptedEntry } from "../../log/entry.ts";
import { isOverload } from "../billing/passing.ts";
import { refusedTask } from "../child-runs/parent-report.ts";
import type { RunContext } from "../context/run-context.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { Finished } from "../steps/endings.ts";
import { leftWaits } from "../tool-calls/left-waits.ts";

/** Verdict on a failed step of a durable run: `again` if attempts are left, `dead` if none is left. Null if the ending is final. */
export type StepVerdict = "again" | "dead" | null;

/** Does what only a durable run does: it suspends, retries failed steps, and publishes the run's status to the clients of its thread. */
export class DurableSteps {
  readonly #runContext: RunContext;
  readonly #durableRun: DurableRun;

  constructor(runContext: RunContext, durableRun: DurableRun) {
    this.#runContext = runContext;
    this.#durableRun = durableRun;
    durableRun.bind(() => this.spent);
  }

  /** Usage and position of the run so far. */
  get spent(): RunSpent {
    const { mode, run } = this.#runContext;
    const { budget, meter } = this.#runContext.billing;
    const { number: step } = this.#runContext.step;
    const active_ms = this.#durableRun.activeMs;
    const { spent } = budget;
    // The resumed run counts calls again that are not yet in the log.
    const tool_calls = spent.tool_calls - run.admitting;
    const used = { ...spent, tool_calls, permission_mode: mode, usage: meter.total, ...run.keptAside };
    return { ...used, step, active_ms };
  }

  /** Publishes the status of the run to the clients of its thread. */
  tell(status: string, attempt: number = this.#durableRun.attempts, waiting_on: WaitingOn | null = null): void {
    const { spec, deps } = this.#runContext;
    const { number: step } = this.#runContext.step;
    const { run_id } = spec;
    this.#runContext.tellStatus(status, waiting_on?.kind ?? null);
    this.#runContext.stream.publish(() =>
      statusFrame({ run_id, status, attempt, step, waiting_on, updated_at: deps.env.now() }),
    );
  }

  /** Suspends the run, and stores its usage in the same batch. */
  async suspend(): Promise<void> {
    const { eventLog, run } = this.#runContext;
    await eventLog.suspend(this.spent, [
      ...this.#durableRun.suspendOps(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    this.tell("waiting", this.#durableRun.attempts, this.#durableRun.givesWay ? null : run.waitingOn);
  }

  /** Returns the verdict on an ending: a failed model call is retried while attempts are left. Null if the ending is final. */
  verdictOn({ mayPass, failure }: Finished): StepVerdict {
    if (!mayPass || failure === null || this.#runContext.abortReason !== null) return null;
    return this.#hasTries ? "again" : "dead";
  }

  /** Suspends the run until the next attempt of its step is due. An attempt that a full queue refused is not counted. */
  async putOff(why: string, isFailed = true): Promise<void> {
    const { eventLog, deps, spec } = this.#runContext;
    const until = deps.env.now() + this.#durableRun.backOffMs;
    await eventLog.suspend(this.spent, [
      ...this.#durableRun.putOffOps(isFailed),
      ...this.#runContext.billing.ops(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    if (isFailed) this.#runContext.stream.publish(() => frame("on_error", { message: why }, -1));
    this.tell("waiting", this.#durableRun.attempts + (isFailed ? 1 : 0), { kind: "retry", id: spec.run_id, until });
  }

  /** True if the run must leave without writing anything more of its current step. */
  get isCut(): boolean {
    return this.#durableRun.isCut;
  }

  /** Leaves an interrupted step. The thread stores its usage afterwards; the run does not wait for that. */
  leave(): "lost" {
    this.#runContext.eventLog.cutOff([
      ...this.#durableRun.cutOps(),
      ...this.#runContext.billing.usageOps(),
      ...(this.#runContext.billing.tree?.lastOps() ?? []),
    ]);
    return "lost";
  }

  /**
   * Handles a defect, or the loss of the store. Returns `suspended` if the step is retried, and `lost` if no end could be
   * written. A lost run is recovered by its thread.
   */
  async failed(error: unknown): Promise<"finished" | "suspended" | "lost"> {
    const { deps, spec, eventLog } = this.#runContext;
    const { meter } = this.#runContext.billing;
    if (this.isCut) return this.leave();
    deps.log.error({ err: error, run_id: spec.run_id }, "the step of a durable run failed");
    const { code } = SvcError.from(error);
    try {
      const isFailed = !isOverload(code);
      // A list of tools that is too long stays too long.
      if (!isFailed || (this.#hasTries && code !== "too_many_tools")) {
        await this.putOff(code, isFailed);
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
