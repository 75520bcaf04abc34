import type { AbortReason } from "../../bus/protocol/run.ts";
import type { BudgetUsed } from "../../bus/protocol/task.ts";
import type { SlotMember, SlotSet } from "../../bus/slot-map.ts";

/** Work that a drain waits for and aborts: runs and branch summaries. */
export interface LiveRun extends SlotMember {
  abort(reason: AbortReason): void;
  drain?(): void;
  writeUsage?(): Promise<void>;
  repay?(reservationId: string, used: BudgetUsed): void;
}

/** The live runs of one thread of the process. */
export type LiveRuns = SlotSet<LiveRun>;
