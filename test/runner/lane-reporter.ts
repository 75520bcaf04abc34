import type { EventData } from "node:test";
import { inspect } from "node:util";
import { saidWithin } from "../support/server-output.ts";
import type { Ended, Word } from "./report.ts";

/** The name of the suite that a lane puts around a file: no pattern of a test's name matches it. */
export const ownSuite = "▸";

/** The delay of a test's report after its end. */
const reportMsMax = 100;

interface Event {
  readonly type: string;
  readonly data: unknown;
}

let reported = Promise.withResolvers<void>();

/** Resolves when every test of the next file is reported. Call it before the file runs. */
export function fileReported(): Promise<void> {
  reported = Promise.withResolvers();
  return reported.promise;
}

/** The reporter of a lane: sends each ended test to the runner. Prints nothing. */
export default async function* report(events: AsyncIterable<Event>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if (type !== "test:complete") continue;
    const test = data as EventData.TestComplete;
    if (!isLanes(test) || isOwnFailure(test)) process.send?.({ ended: endedOf(test) } satisfies Word);
    if (test.nesting === 0) reported.resolve();
  }
  yield "";
}

function isLanes({ name, nesting }: EventData.TestComplete): boolean {
  return nesting < 2 && name === ownSuite;
}

function endedOf(test: EventData.TestComplete): Ended {
  const { name, line = 0, column = 0, details, skip } = test;
  const type = failureTypeOf(test);
  // A suite whose tests have failed is not a further failure.
  const isFailure = !details.passed && (details.type !== "suite" || isOwnFailure(test));
  const error = (details.error as Error | undefined)?.cause ?? details.error;
  return {
    kind: details.type === "suite" ? "suite" : "test",
    outcome: outcomeOf(test, type),
    ...(isFailure && {
      failure: {
        name: isLanes(test) ? "the file" : name,
        line,
        column,
        text: withServers(typeof error === "string" ? error : inspect(error), details.duration_ms),
      },
    }),
    ...(skip !== undefined && { skip: { name, reason: typeof skip === "string" ? skip : "" } }),
  };
}

/** Adds the warnings of servers since the test began to the error. */
function withServers(error: string, ms: number): string {
  const said = saidWithin(ms + reportMsMax);
  return said === "" ? error : `${error}\n\nits servers said:\n${said}`;
}

function outcomeOf({ details, skip, todo }: EventData.TestComplete, failureType: string | null): Ended["outcome"] {
  if (skip !== undefined) return "skipped";
  if (todo !== undefined) return "todo";
  if (details.passed) return "passed";
  return failureType === "cancelledByParent" ? "cancelled" : "failed";
}

/** True if a suite or file failed itself, and not only one of its tests. */
function isOwnFailure(test: EventData.TestComplete): boolean {
  return !test.details.passed && failureTypeOf(test) !== "subtestsFailed";
}

function failureTypeOf({ details }: EventData.TestComplete): string | null {
  return (details.error as { failureType?: string } | undefined)?.failureType ?? null;
}
