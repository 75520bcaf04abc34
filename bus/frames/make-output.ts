import type { Channel } from "../protocol/channel.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { entryPointOf } from "./entry-points.ts";
import type { RunOutput } from "./output.ts";

/**
 * Returns the output of a turn over `channel`, in the form of its entry point. `firstSeq` is the sequence number of its first
 * event; null for a lost run, whose last event is unknown.
 */
export function outputFor(
  turn: SubmitTurn,
  channel: Channel,
  agentName: string,
  now: number,
  firstSeq: number | null,
): RunOutput {
  const { output } = entryPointOf(turn.surface);
  if (output === null) throw new Error(`the entry point ${turn.surface} has no output to a caller`);
  return output({ turn, channel, agentName, created: Math.floor(now / 1000), firstSeq });
}
