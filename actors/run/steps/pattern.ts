import type { Semaphore } from "../../../bus/queues/semaphore.ts";
import type { RunDeps } from "../context/deps.ts";
import type { RunContext } from "../context/run-context.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import type { Ending } from "./endings.ts";

/** The loop of an agent, which runs until the ending of the run is known. It rejects only if the event log does. */
export type Pattern = (runContext: RunContext, tools: ToolRunner) => Promise<Ending>;

/** Dependencies of the run actor, in addition to those of a run. */
export interface PatternDeps extends RunDeps {
  /** The loops by their names in spec.pattern. */
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** Limits how many suspended runs are resumed at once. */
  readonly resumes: Semaphore;
}
