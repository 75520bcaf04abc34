import type { CompactionResult } from "../../../bus/frames/output.ts";
import type { WaitingOn } from "../../../bus/frames/run-status.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import type { RunSpent } from "../../../storage/tables/runs.ts";
import { MadePlans } from "../../tools/made-plans.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { Decisions } from "./decisions.ts";
import type { TaskFamily } from "./task-family.ts";

/** What is one for a run, however many agents work in it. */
export class RunState {
  /** Why somebody stopped the run; null while nobody has, also when its time was over. */
  abortReason: AbortReason | null = null;
  /** The tool whose failure ends the run, and why it has failed; null while there is none. */
  failedTool: { readonly name: string; readonly text: string } | null = null;
  /** The requests for approval that the run has waited for; null while there is none. */
  approvals: Set<string> | null = null;
  /** What the run may do without asking. It changes when a plan is approved. */
  mode: PermissionMode;
  /** The run has asked somebody outside. */
  hasAsked: boolean;
  /** A call of a tool that may change something was begun. */
  hasActed: boolean;
  /** A provider has refused the images of a message, and the log says so. */
  hasRefusedImages = false;
  readonly madePlans = new MadePlans();
  /** The tasks that the run has handed out; null while there are none. */
  tasks: TaskFamily | null = null;
  /** What deciders of the run were asked; null while none was. */
  decisions: Decisions | null = null;
  /** Calls that controls are being asked of: they may be counted, and nothing of them is in the log. */
  admitting = 0;
  /** The result of POST /chat/compact; null for every other run. */
  compaction: CompactionResult | null = null;
  /** What the run has asked last that is not answered; null for nothing. */
  waitingOn: WaitingOn | null = null;
  /** Ids of calls that the run has made: a model that uses one again gets another. */
  readonly callIds: Set<string>;

  constructor({ resumed, mode }: RunSpec) {
    this.mode = mode;
    this.hasAsked = resumed !== null;
    this.hasActed = resumed?.spent?.acted ?? false;
    this.callIds = new Set(resumed?.callIds);
    const approvals = [...(resumed?.approvals ?? []), ...(resumed?.spent?.approvals ?? [])];
    if (approvals.length > 0) this.approvals = new Set(approvals);
  }

  /** Facts to store while the run is suspended: approvals that its tasks waited for, and whether it has acted. */
  get keptAside(): Pick<RunSpent, "approvals" | "acted"> {
    return {
      ...(this.tasks !== null && this.approvals !== null && { approvals: [...this.approvals] }),
      ...(this.hasActed && { acted: true as const }),
    };
  }
}
