import type { ToolCall } from "../../../storage/tables/events.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import type { RequestedCall } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { isOfRequest } from "../spec/request-tools.ts";
import { identifyCalls } from "../spec/requested-calls.ts";
import type { PendingCall } from "../spec/run-spec.ts";
import { CallRunner } from "./call-runner.ts";
import type { Made } from "./made-call.ts";

/** Runs the tool calls of one agent, step by step. It decides the order of the calls and collects the results of each step. */
export class ToolRunner {
  readonly #runContext: RunContext;
  /** Created for the first call. */
  #callRunner: CallRunner | null = null;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
  }

  get #calls(): CallRunner {
    this.#callRunner ??= new CallRunner(this.#runContext);
    return this.#callRunner;
  }

  /** Returns the calls as the log stores them: each with a unique id, and with parsed arguments if they are valid JSON. */
  identify(requested: readonly RequestedCall[]): ToolCall[] {
    const { deps, spec } = this.#runContext;
    const { clientTools, queues } = spec.agent;
    const leaves = (name: string): boolean =>
      clientTools.has(name) || queues.has(name) || isOfRequest(spec.agent, name);
    return identifyCalls(requested, this.#runContext.run.callIds, deps.env, leaves);
  }

  /**
   * Runs the calls of a step. Returns results in the order of the calls. `waits` is true if a call waits for an external answer;
   * parallel calls still end, sequential ones do not start after it. `handed` lists calls for the client. Refuses only when the
   * event log does.
   */
  async runAll(
    calls: readonly PendingCall[],
  ): Promise<{ outcomes: ToolOutcome[]; waits: boolean; handed: readonly ToolCall[] }> {
    const found: Made[] = [];
    if (this.#runContext.spec.agent.parallelTools) {
      found.push(...(await this.#runConcurrently(calls)));
    } else {
      for (const pending of calls) {
        const outcome = await this.#calls.run(pending);
        found.push(outcome);
        if (outcome === null) break;
      }
    }
    // A suspended task may have resumed by now.
    if (found.includes(null)) await this.#runContext.run.tasks?.rest();
    if (this.#runContext.cancellation.cancelled && found.includes(null)) await this.#stopWaiting(calls, found);
    const outcomes = found.filter((made) => made !== null && !("handed" in made)) as ToolOutcome[];
    const handed = found.flatMap((made) => (made !== null && "handed" in made ? [made.handed] : []));
    this.#runContext.step.endedOnDenial = outcomes.at(-1)?.status === "denied";
    return { outcomes, waits: outcomes.length + handed.length < found.length, handed };
  }

  /** Runs all calls concurrently. If one cannot be logged, the run is cancelled, and the error is thrown after all calls have ended. */
  async #runConcurrently(calls: readonly PendingCall[]): Promise<Made[]> {
    const ends = await Promise.allSettled(
      calls.map((pending) =>
        this.#calls.run(pending).catch((error) => {
          this.#runContext.cancellation.cancel();
          throw error;
        }),
      ),
    );
    return ends.map((end) => {
      if (end.status === "rejected") throw end.reason;
      return end.value;
    });
  }

  /** Closes the calls that wait, and those not yet started, after the run was stopped. */
  async #stopWaiting(calls: readonly PendingCall[], found: Made[]): Promise<void> {
    const { store, spec } = this.#runContext;
    const waits = await waitsOfRun(store, spec.run_id);
    for (const [at, pending] of calls.entries()) {
      if (found[at]) continue;
      const wait = waits.find(({ call }) => call.tool_call_id === pending.call.id) ?? null;
      found[at] = await this.#calls.run({ ...pending, wait });
    }
  }

  /** Closes calls that do not run, in the log and for clients. */
  leave(calls: readonly ToolCall[], why: string): Promise<ToolOutcome[]> {
    return this.#calls.leave(calls, why);
  }
}
