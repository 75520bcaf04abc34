import type { ModelRoute } from "../../../manifests/registries.ts";
import type { Resumed, RunSpec } from "../spec/run-spec.ts";
import type { RunStream } from "../stream/run-stream.ts";
import type { RunBranch } from "./run-branch.ts";

/**
 * What becomes of the model's text: `aloud` is streamed as it comes. `held` is buffered until its pattern releases it; text beside tool calls
 * is released as soon as it is complete. `silent` is no part of the answer, and is never sent.
 */
export type Voice = "streamed" | "held" | "silent";

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
