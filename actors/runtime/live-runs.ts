import type { AbortReason } from "../../bus/protocol/run.ts";
import type { SlotMember, SlotSet } from "../../bus/slot-map.ts";

/** Work that a drain waits for and aborts: runs and branch summaries. */
export interface LiveRun extends SlotMember {
  abort(reason: AbortReason): void;
  drain?(): void;
  /** Stops or suspends the run if it is frozen. */
  obeyFreezes?(): void;
  writeUsage?(): Promise<void>;
}

/** The live runs of one thread of the process. */
export type LiveRuns = SlotSet<LiveRun>;
