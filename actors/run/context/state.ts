import type { Env } from "../../../bus/env.ts";
import type { CalledTool, CompactionResult } from "../../../bus/frames/output.ts";
import type { WaitingOn } from "../../../bus/frames/run-status.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { ArtifactRow } from "../../../storage/tables/artifacts.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import { MadePlans } from "../../tools/made-plans.ts";
import { MemoryWaits } from "../event-log/waits.ts";
import type { Resumed, RunSpec } from "../spec/run-spec.ts";
import type { RunStream } from "../stream/run-stream.ts";
import type { AskedOnce, Decided } from "./decisions.ts";
import type { RunBranch } from "./run-branch.ts";
import { RunTaint } from "./run-taint.ts";
import type { TaskFamily } from "./task-family.ts";

/** State of one run, shared by all its agents. */
export class RunState {
  /** The reason why the run was stopped; null if it was not, and if its time limit was reached. */
  abortReason: AbortReason | null = null;
  /** True if the durable run is to be suspended because of a freeze. */
  isFrozen = false;
  /** The tool whose failure ends the run, and the failure; null for none. */
  failedTool: { readonly name: string; readonly text: string } | null = null;
  /** Ids of approval requests that the run has waited for; null for none. */
  approvals: Set<string> | null = null;
  /** The permission mode. An approved plan changes it. */
  mode: PermissionMode;
  /** True if the run has opened a wait. */
  hasAsked: boolean;
  /** True if a call has started of a tool that may change something. */
  hasActed: boolean;
  /** True if a provider has rejected the images of a message, which the log records. */
  hasRefusedImages = false;
  readonly madePlans = new MadePlans();
  /** The untrusted sources of the texts in the run. */
  readonly taint = new RunTaint();
  /** Stored results of a run without a thread, which end with it; null for none. */
  ownArtifacts: ArtifactRow[] | null = null;
  /** The tasks of the run; null while it has none. */
  tasks: TaskFamily | null = null;
  /** Questions to the deciders of the run; null for none. */
  decisions: AskedOnce<Decided> | null = null;
  /** Questions of controls to models; null for none. */
  questions: AskedOnce<unknown> | null = null;
  /** Number of calls that controls are checking. The limits may have counted them, but the log has no entry of them. */
  admitting = 0;
  /** The result of POST /chat/compact; null for every other run. */
  compaction: CompactionResult | null = null;
  /** The result of a single call; null for every other run, and before the call has ended. */
  called: CalledTool | null = null;
  #waits: MemoryWaits | null = null;
  readonly #env: Env;
  /** The last open question of the run; null for none. */
  waitingOn: WaitingOn | null = null;
  /** Ids of the run's calls. A call that repeats one gets a new id. */
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

  /** Open waits of a run without a thread, in memory. */
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
 * Mode of an agent's text. `streamed` text is sent as it arrives. `buffered` text waits until the pattern releases it; text next
 * to tool calls is released once it is complete. `hidden` text is not part of the answer, and is never sent.
 */
export type Voice = "streamed" | "buffered" | "hidden";

/** An agent whose text is the answer: the asked agent, or the sub-agent that answers for it. */
export interface Speaker {
  readonly spec: Pick<RunSpec, "agent">;
  readonly branch: RunBranch;
  readonly stream: RunStream;
  readonly answerer: Speaker;
}

/** State of an agent's steps: everything that changes from step to step, except the branch. */
export class StepState {
  /** Number of the current step, from 1. */
  number = 0;
  /** Model calls before the loop that count against the step limit. */
  before = 0;
  /** True if the run has called its model. */
  hasCalledModel: boolean;
  /** The model routes of the steps: those of the turn, unless the pattern chooses others. */
  routes: readonly ModelRoute[];
  /** The route that answered last. */
  route: ModelRoute;
  replyMode: Voice = "streamed";
  /** Shown to the model in its first call as a message of the caller; not stored. */
  ephemeralInstruction: string | null;
  /** State for the first step of a resumed run; null after that step has started. */
  resumed: Resumed | null;
  /** Entries that the current turn stored before the run was suspended; null for a later turn of the run. */
  earlier: Resumed | null;
  /** Texts of hooks for the model; null for none. They are not stored. */
  material: string[] | null = null;
  /** Number of times that hooks have sent the agent back to work. */
  continued = 0;
  /** Tokens of the next prompt, if counted; null if they are estimated. */
  promptTokens: number | null = null;
  /** True if the last tool call was denied: the turn has then not done its work. */
  endedOnDenial = false;
  /** The sub-agent that answers for this agent; null for none. */
  answering: Speaker | null = null;
  /** Functions that close the waiting calls of sub-agents in this process, if the run is stopped while other sub-agents work. */
  readonly closeSubAgents: (() => Promise<void>)[] = [];

  constructor({ routes, resumed }: Pick<RunSpec, "routes" | "resumed">, ephemeralInstruction: string | null) {
    this.routes = routes;
    this.route = routes[0] as ModelRoute;
    this.ephemeralInstruction = ephemeralInstruction;
    this.resumed = resumed;
    this.earlier = resumed;
    this.hasCalledModel = resumed !== null;
  }

  /** Starts another turn of the run. */
  beginTurn(): void {
    this.earlier = null;
    this.answering = null;
  }
}
