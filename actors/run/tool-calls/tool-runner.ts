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

/** Runs the tool calls that one agent of a run asks for, step by step: in what order they run, and which results a step gets. */
export class ToolRunner {
  readonly #runContext: RunContext;
  /** Made for the first call. */
  #callRunner: CallRunner | null = null;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
  }

  get #calls(): CallRunner {
    this.#callRunner ??= new CallRunner(this.#runContext);
    return this.#callRunner;
  }

  /** The calls as the log keeps them: each with an id of its own, arguments parsed where they can be. */
  identify(requested: readonly RequestedCall[]): ToolCall[] {
    const { deps, spec } = this.#runContext;
    const { clientTools, queues } = spec.agent;
    const leaves = (name: string): boolean =>
      clientTools.has(name) || queues.has(name) || isOfRequest(spec.agent, name);
    return identifyCalls(requested, this.#runContext.run.callIds, deps.env, leaves);
  }

  /**
   * Results in the order of the calls, as far as there are any: `waits` says that a call waits for somebody outside. Of parallel
   * calls the others come to their end first; of others none begins behind it. Those that are the client's to make are `handed`.
   * Refuses only when the event log does.
   */
  async runAll(
    calls: readonly PendingCall[],
  ): Promise<{ outcomes: ToolOutcome[]; waits: boolean; handed: readonly ToolCall[] }> {
    const found: Made[] = [];
    if (this.#runContext.spec.agent.parallelTools) {
      found.push(...(await this.#runBeside(calls)));
    } else {
      for (const pending of calls) {
        const outcome = await this.#calls.run(pending);
        found.push(outcome);
        if (outcome === null) break;
      }
    }
    // A task that is put aside may have come back by now.
    if (found.includes(null)) await this.#runContext.run.tasks?.rest();
    if (this.#runContext.cancellation.cancelled && found.includes(null)) await this.#stopWaiting(calls, found);
    const outcomes = found.filter((made) => made !== null && !("handed" in made)) as ToolOutcome[];
    const handed = found.flatMap((made) => (made !== null && "handed" in made ? [made.handed] : []));
    this.#runContext.step.endedOnDenial = outcomes.at(-1)?.status === "denied";
    return { outcomes, waits: outcomes.length + handed.length < found.length, handed };
  }

  /** One that cannot be written ends the run, and the run ends behind all of them. */
  async #runBeside(calls: readonly PendingCall[]): Promise<Made[]> {
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

  /** The run was stopped while it was asking: what waits, and what would have come behind it, gets its result all the same. */
  async #stopWaiting(calls: readonly PendingCall[], found: Made[]): Promise<void> {
    const { store, spec } = this.#runContext;
    const waits = await waitsOfRun(store, spec.run_id);
    for (const [at, pending] of calls.entries()) {
      if (found[at]) continue;
      const wait = waits.find(({ call }) => call.tool_call_id === pending.call.id) ?? null;
      found[at] = await this.#calls.run({ ...pending, wait });
    }
  }

  /** Closes calls that are not run, in the log and for clients. */
  leave(calls: readonly ToolCall[], why: string): Promise<ToolOutcome[]> {
    return this.#calls.leave(calls, why);
  }
}
