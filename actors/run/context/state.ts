import type { Env } from "../../../bus/env.ts";
import type { CompactionResult } from "../../../bus/frames/output.ts";
import type { WaitingOn } from "../../../bus/frames/run-status.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { RunSpent } from "../../../storage/tables/runs.ts";
import { MadePlans } from "../../tools/made-plans.ts";
import { MemoryWaits } from "../event-log/waits.ts";
import type { Resumed, RunSpec } from "../spec/run-spec.ts";
import type { RunStream } from "../stream/run-stream.ts";
import type { Decisions } from "./decisions.ts";
import type { RunBranch } from "./run-branch.ts";
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
  #waits: MemoryWaits | null = null;
  readonly #env: Env;
  /** What the run has asked last that is not answered; null for nothing. */
  waitingOn: WaitingOn | null = null;
  /** Ids of calls that the run has made: a model that uses one again gets another. */
  readonly callIds: Set<string>;

  constructor({ resumed, mode }: RunSpec, env: Env) {
    this.#env = env;
    this.mode = mode;
    this.hasAsked = resumed !== null;
    this.hasActed = resumed?.spent?.acted ?? false;
    this.callIds = new Set(resumed?.callIds);
    const approvals = [...(resumed?.approvals ?? []), ...(resumed?.spent?.approvals ?? [])];
    if (approvals.length > 0) this.approvals = new Set(approvals);
  }

  /** Questions of a run without a thread, which are kept in memory. */
  get waits(): MemoryWaits {
    this.#waits ??= new MemoryWaits(this.#env);
    return this.#waits;
  }

  /** Facts to store while the run is suspended: approvals that its tasks waited for, and whether it has acted. */
  get keptAside(): Pick<RunSpent, "approvals" | "acted"> {
    return {
      ...(this.tasks !== null && this.approvals !== null && { approvals: [...this.approvals] }),
      ...(this.hasActed && { acted: true as const }),
    };
  }
}

/**
 * What becomes of the model's text: `streamed` leaves as it comes. `buffered` waits until its pattern releases it; text beside tool calls
 * is released as soon as it is complete. `hidden` is no part of the answer, and is never sent.
 */
export type Voice = "streamed" | "buffered" | "hidden";

/** The sub-agent that answers in the place of the agent that asked it. */
export interface Speaker {
  readonly spec: Pick<RunSpec, "agent">;
  readonly branch: RunBranch;
  readonly stream: RunStream;
  readonly answerer: Speaker;
}

/** The state of an agent's steps: all that changes from one step to the next, except the branch. */
export class StepState {
  /** The step that the loop is at, from 1. */
  number = 0;
  /** Model calls that count against the step limit although they were made before the loop began. */
  before = 0;
  /** Whether the run has called its model before. */
  hasCalledModel: boolean;
  /** The models that steps call: those of the turn, unless the pattern picks others. */
  routes: readonly ModelRoute[];
  /** The route that answered last. */
  route: ModelRoute;
  replyMode: Voice = "streamed";
  /** Shown to the model at its first call, as the caller's words, and not stored. */
  ephemeralInstruction: string | null;
  /** Where the first step of a resumed run begins; null as soon as it has begun. */
  resumed: Resumed | null;
  /** What the current turn stored before the run was suspended; null for a later turn of the run. */
  earlier: Resumed | null;
  /** Counted tokens of the next prompt; null where they are estimated. */
  promptTokens: number | null = null;
  /** Whether the last tool call was refused: then the turn did not do its work. */
  endedOnDenial = false;
  /** The sub-agent that answers in the place of this agent; null for none. */
  answering: Speaker | null = null;
  /** Close the calls of sub-agents that wait for an answer from outside, in this process. */
  readonly closeMembers: (() => Promise<void>)[] = [];

  constructor({ routes, resumed }: Pick<RunSpec, "routes" | "resumed">, ephemeralInstruction: string | null) {
    this.routes = routes;
    this.route = routes[0] as ModelRoute;
    this.ephemeralInstruction = ephemeralInstruction;
    this.resumed = resumed;
    this.earlier = resumed;
    this.hasCalledModel = resumed !== null;
  }

  /** Another turn of the run begins. */
  beginTurn(): void {
    this.earlier = null;
    this.answering = null;
  }
}
