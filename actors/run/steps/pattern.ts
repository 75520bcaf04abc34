import type { Semaphore } from "../../../bus/queues/semaphore.ts";
import type { RunDeps } from "../context/deps.ts";
import type { RunContext } from "../context/run-context.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import type { Ending } from "./endings.ts";

/** The loop of an agent: goes on until it is known how the run ends. It refuses only when the event log does. */
export type Pattern = (runContext: RunContext, tools: ToolRunner) => Promise<Ending>;

/** What runs need, and the actors that start them. */
export interface PatternDeps extends RunDeps {
  /** The loops that an agent can have, by spec.pattern. */
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** How many runs that were put aside are taken up at once. */
  readonly resumes: Semaphore;
}
