import type { FailureCode } from "../../bus/frames/output.ts";
import type { StopReason, TurnUsage } from "../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { EntryPoint, EvaluatedRun, ResponseAsked, TriggerDelivery } from "../../bus/protocol/run.ts";
import type { SingleCall } from "../../bus/protocol/single-call.ts";
import type { ParentRun, TaskOutcome } from "../../bus/protocol/task.ts";
import type { TraceContext } from "../../bus/protocol/trace.ts";
import type { TurnOptions } from "../../bus/protocol/turn-options.ts";
import type { WorkflowStepRun } from "../../bus/protocol/workflow.ts";

// The JSON columns of a run's row.

/** The request, its principal and its limits: enough to restart at the step that the log shows. */
export interface RunAsked {
  readonly surface: EntryPoint;
  readonly request_id: string;
  readonly principal: Omit<Principal, "tenant_id">;
  /** Ids of the model's route and of its fallbacks. */
  readonly routes: readonly string[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** Output style of the thread at the start of the run; absent if none was chosen. */
  readonly output_style?: string;
  /** Permission mode at the start of the run; absent for the default. */
  readonly permission_mode?: PermissionMode;
  /** The parent of a task's run; absent for others. */
  readonly parent?: ParentRun;
  /** The trigger that started the run; absent for others. */
  readonly trigger?: TriggerDelivery;
  /** The evaluation that the run belongs to; absent for others. */
  readonly evaluation?: EvaluatedRun;
  /** The step of a workflow that the run works for; absent for others. */
  readonly workflow?: WorkflowStepRun;
  /** The call of a durable run of one call; absent for others. */
  readonly call?: SingleCall;
  /** Set for POST /v1/responses only. */
  readonly response?: ResponseAsked;
  /** Options of a request to the OpenAI routes; absent if it had none. */
  readonly options?: TurnOptions;
  /** Set for durable runs only; see storage/tables/durable-rows.ts. */
  readonly durable?: DurableAsked;
  /** First event of the original turn, if the client has repeated a failed turn. */
  readonly again_of?: number;
  /** The trace that the run belongs to; absent if it is not sampled. */
  readonly trace?: TraceContext;
  /** Set for a run that continues a dead one. */
  readonly requeued?: RequeuedRun;
}

/** Data of the dead run that a new run continues. */
export interface RequeuedRun {
  readonly run_id: string;
  /** The first run in a chain of requeued ones; its id is part of the keys of their calls. */
  readonly first_run_id: string;
  /** The first event of that run. */
  readonly first_seq: number;
  /** Usage of their limits so far; null if none. */
  readonly spent: RunSpent | null;
}

/** Options of a durable run. */
export interface DurableAsked {
  /** Max milliseconds that it may wait after its last step. */
  readonly ttl_ms: number;
  /** Endpoints that receive a webhook about its end; absent if none. */
  readonly webhooks?: readonly string[];
  /** Digest of its stored manifests. */
  readonly body?: string;
}

/** The amounts that a run has used of its limits. */
export interface RunSpent {
  readonly tool_calls: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
  /** Permission mode at its last suspension; absent if equal to the one at its start. */
  readonly permission_mode?: PermissionMode;
  /** Tasks that it or its tasks have started; absent if none. */
  readonly hops?: number;
  /** For a durable run: its current step, and its active milliseconds. */
  readonly step?: number;
  readonly active_ms?: number;
  /** Approval requests that its tasks have waited for; absent if none. */
  readonly approvals?: readonly string[];
  /** Set if it has started a tool call that may change something. */
  readonly acted?: true;
  /** Usage reported by its model calls, for the reply; null if none was reported. */
  readonly usage: TurnUsage | null;
}

/** Outcome of a run. */
export interface RunResult {
  readonly stop_reason: StopReason | null;
  /** Error code of a failure; null on success. */
  readonly error: string | null;
  /** Text of the failure for the client; absent if there is none. */
  readonly failure?: string;
  /** Kind of a model failure; absent for other failures. */
  readonly failure_code?: FailureCode;
  /** Null if no provider reported usage. */
  readonly usage: TurnUsage | null;
  /** For a step of a workflow: the untrusted sources that it has read, and whether it may have changed something; absent for none. */
  readonly taint?: readonly string[];
  readonly acted?: true;
  /** Why the budget of the workflow could not pay a model call; absent if it paid all. */
  readonly workflow_breach?: string;
  /** Result of a task for its parent; absent for other runs. */
  readonly task?: TaskOutcome;
}
