import { SvcError } from "../../../bus/errors.ts";
import type { RunOutput } from "../../../bus/frames/output.ts";
import type { SlotMember, SlotSet } from "../../../bus/slot-map.ts";

/** A suspended run whose client is still connected. */
export interface HeardRun extends SlotMember {
  output: RunOutput | null;
}

/**
 * Ends the streams and requests of clients that wait for suspended runs, as the process stops. No client can answer such a run in this
 * process. Its row stays suspended, and the next process resumes it.
 */
export function endHeardRuns(heard: SlotSet<HeardRun>): void {
  for (const run of heard) {
    heard.delete(run);
    run.output?.failed(new SvcError("shutting_down"));
    run.output = null;
  }
}
