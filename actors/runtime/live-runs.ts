import type { AbortReason, BudgetUsed } from "../../bus/protocol/run.ts";
import type { SlotMember, SlotSet } from "../../bus/slot-map.ts";

/** What a drain waits for and stops: runs, and summaries that are being made. */
export interface LiveRun extends SlotMember {
  abort(reason: AbortReason): void;
  drain?(): void;
  writeUsage?(): Promise<void>;
  repay?(reservationId: string, used: BudgetUsed): void;
}

/** Those of one thread. */
export type LiveRuns = SlotSet<LiveRun>;
