import type { Readable } from "node:stream";
import { eventCharsMax, type RunnerEvent } from "./runner-protocol.ts";
import { type CommandExit, commandFailures } from "./spawner-frames.ts";

/** Reads the events of a runner's stream. Throws for a line that is too long, and for one that is no event. */
export async function* eventsOf(body: Readable): AsyncGenerator<RunnerEvent, undefined> {
  let rest = "";
  for await (const chunk of body as AsyncIterable<Buffer>) {
    // Events are ASCII: JSON of base64, ids and numbers.
    rest += chunk.toString("latin1");
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > eventCharsMax) throw new RangeError("an event is too long");
    for (const line of lines) if (line.startsWith("data:")) yield eventIn(JSON.parse(line.slice(5)));
  }
  return undefined;
}

function eventIn(value: unknown): RunnerEvent {
  const { id, stream, data, exit } = fieldsOf(value);
  if (typeof id === "string") return { id };
  if ((stream === "stdout" || stream === "stderr") && typeof data === "string") return { stream, data };
  if (exit !== undefined) return { exit: exitIn(exit) };
  throw new TypeError("not an event of a runner");
}

function exitIn(value: unknown): CommandExit {
  const { code, signal, failure, skipped } = fieldsOf(value);
  const { stdout, stderr } = fieldsOf(skipped ?? {});
  const known = commandFailures.find((name) => name === failure);
  if (!(code === null || Number.isInteger(code)) || !(signal === null || typeof signal === "string"))
    throw new TypeError("not the exit of a command");
  if (failure !== undefined && known === undefined) throw new TypeError("not a failure of a command");
  return {
    code: code as number | null,
    signal,
    ...(known !== undefined && { failure: known }),
    ...(skipped !== undefined && { skipped: { stdout: Number(stdout) || 0, stderr: Number(stderr) || 0 } }),
  };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) throw new TypeError("not an object");
  return value as Readonly<Record<string, unknown>>;
}
