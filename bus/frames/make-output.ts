import type { Channel } from "../protocol/channel.ts";
import type { SubmitTurn } from "../protocol/run.ts";
import { entryPoints } from "./entry-points.ts";
import type { RunOutput } from "./output.ts";

/**
 * The output of a turn over `channel`, in the form that its entry point answers in. `firstSeq` is the sequence number of its first event;
 * null for a run that is lost, whose last event is unknown.
 */
export function outputFor(
  turn: SubmitTurn,
  channel: Channel,
  agentName: string,
  now: number,
  firstSeq: number | null,
): RunOutput {
  const { output } = entryPoints[turn.surface];
  if (output === null) throw new Error(`a ${turn.surface} has no stream of its own`);
  return output({ turn, channel, agentName, created: Math.floor(now / 1000), firstSeq });
}
