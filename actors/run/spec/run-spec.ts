import type { SvcError } from "../../../bus/errors.ts";
import type { RunResult } from "../../../bus/frames/output.ts";
import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { EntryPoint, EvaluatedRun, ResponseAsked, TriggerDelivery } from "../../../bus/protocol/run.ts";
import type { SingleCall } from "../../../bus/protocol/single-call.ts";
import type { ParentRun } from "../../../bus/protocol/task.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import type { WorkflowStepRun } from "../../../bus/protocol/workflow.ts";
import type { OpenSpan } from "../../../governance/tracing/tracer.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ModelRoute, ToolEffect } from "../../../manifests/registries.ts";
import type { LogEvent, ToolCall } from "../../../storage/tables/events.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { WaitRow } from "../../../storage/tables/waits.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { AskedKey, QueuedCount } from "../../log/messages.ts";
import type { Thinking } from "../../models/thinking.ts";
import type { Foreseen } from "../../tools/tool.ts";
import type { ToolOpening } from "../../tools/tool-sets.ts";
import type { DurableRun } from "./durable-run.ts";
import type { RunNote } from "./notes.ts";

/** Everything that is decided about a run when it is accepted. Plain data. */
export interface RunSpec {
  readonly run_id: string;
  readonly request_id: string;
  readonly surface: EntryPoint;
  readonly principal: Principal;
  readonly agent: CompiledAgent;
  /** The output style that the thread has chosen; null for none. */
  readonly outputStyle: string | null;
  /** The permission mode at the start, or at the resumption, of the run. */
  readonly mode: PermissionMode;
  /** The agent's system prompt with the output style; the same for every model call. */
  readonly systemPrompt: string;
  /** The model of this turn, then the manifest's fallbacks. */
  readonly routes: readonly ModelRoute[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** The thinking level of the thread, or else of the manifest. */
  readonly thinking: Thinking | null;
  readonly thread_suffix: string | null;
  /** The run that started this one as a task; null for a run of a caller. */
  readonly parent: ParentRun | null;
  /** True if the budget that the run shares with its tasks is already stored in rows. */
  readonly isShared: boolean;
  /** Agents that the request has passed through before this run. */
  readonly hops: number;
  /** The options of POST /v1/responses; null on other entry points. */
  readonly response: ResponseAsked | null;
  /** The options of the OpenAI entry point; null without any. */
  readonly options: TurnOptions | null;
  /** The trigger delivery that started the run; null for a run of a caller. */
  readonly trigger: TriggerDelivery | null;
  /** The evaluation that the run belongs to; null for any other run. */
  readonly evaluation: EvaluatedRun | null;
  /** The step of a workflow that the run works for; null for any other run. */
  readonly workflow: WorkflowStepRun | null;
  /** The call of a run of one call, as the controls of input let it in; null for any other run. */
  readonly call: SingleCall | null;
  /** The caller's text, for the audit; null without one. */
  readonly userText: string | null;
  readonly startedAt: number;
  /** The run id in the idempotency keys of this run's tool calls: its own, or that of the first run of a requeued chain. */
  readonly keyedAs: string;
  /** The first event of the failed turn that this run repeats; null for a new turn. */
  readonly againOf: number | null;
  /** The store's key of the thread; -1 without a thread. */
  readonly thread_key: number;
  /** The state of a suspended run that is now resumed; null for a new run. */
  readonly resumed: Resumed | null;
  /** Queued messages at the start, or at the resumption, of the run; null for none. */
  readonly queued: QueuedCount | null;
  /** The idempotency key that the turn's last batch settles. */
  readonly idempotency: AskedKey | null;
  /** The sequence number of the turn's first event. */
  readonly fromSeq: number;
  /** The span of the run; absent if its trace is not sampled. */
  readonly trace?: OpenSpan;
}

/** The initial state of a run, or of a sub-agent in it. */
export interface RunStart {
  readonly spec: RunSpec;
  /** The history that the model may see, with the caller's new messages last. The run appends to it. */
  readonly branch: ContextMessage[];
  /** Index of the first message of this turn in `branch`. */
  readonly turnStart: number;
  /** A line for the first model call, in the role of the caller. It is not stored. */
  readonly ephemeralInstruction: string | null;
  /** Texts of hooks for the model, which are not stored; null or absent for none. */
  readonly material?: readonly string[] | null;
  /** The part of the limits that was used before the run was accepted; null or absent for none. */
  readonly spentBefore?: RunSpent | null;
  /** Opens the tool sources of the agent, before the first step of the accepted run; null if it has none. */
  readonly tools: ToolOpening | null;
  /** How a durable run stores its progress; null for every other run. */
  readonly durableRun: DurableRun | null;
}

/** The state of a suspended run, rebuilt from its row and its log. */
export interface Resumed {
  /** Model calls since the newest note. */
  readonly step: number;
  /** Calls of the newest reply that have no result. */
  readonly calls: readonly PendingCall[];
  /** True if the last call of the newest reply was denied. Null while that call has no result, and without calls. */
  readonly endedOnDenial: boolean | null;
  /** The final reply, if the log has it and the run row is not ended yet; null otherwise. */
  readonly answer: GivenAnswer | null;
  /** The ids of all calls of the run. */
  readonly callIds: readonly string[];
  readonly spent: RunSpent | null;
  /** The notes of the pattern, oldest first. */
  readonly notes: readonly RunNote[];
  /** The logged events of the sub-agents. */
  readonly ofSubAgents: readonly LogEvent[];
  /** The open waits of the run and of its sub-agents. */
  readonly waits: readonly WaitRow[];
  /** Ids of the approval requests that the run has waited for. */
  readonly approvals: readonly string[];
}

/** A final reply from the log. */
export interface GivenAnswer {
  readonly text: string;
  readonly stop_reason: StopReason;
}

/** A call that is not finished: new, suspended at a wait, or interrupted. */
export interface PendingCall {
  readonly call: ToolCall;
  /** The arguments as the model wrote them. Absent for a call from the log, which has parsed arguments. */
  readonly argumentsText?: string;
  /** True if the call was handed to the client before the run was suspended. */
  readonly isHanded?: boolean;
  /** Present if the process ended during the call. */
  readonly begun?: BegunCall;
  readonly wait: WaitRow | null;
  /** Resolves when the reply with this call is durable and published. Absent for a call of an earlier process. */
  readonly replied?: Promise<void>;
}

/** A call that was interrupted and may have had its effect. */
export interface BegunCall {
  readonly effect: ToolEffect;
  /** The arguments that the controls have rewritten; undefined if they are the model's own. */
  readonly args: ToolCall["args"] | undefined;
  /** True if a person has edited the arguments. */
  readonly isEdited: boolean;
  /** The change that the call intended, for a later check; null if no check is possible. */
  readonly foreseen: Foreseen | null;
}

/** The outcome of a run: a result, possibly of an aborted run, or an error when the server stops or refuses a write. */
export type RunOutcome =
  | { readonly kind: "finished"; readonly result: RunResult }
  | { readonly kind: "failed"; readonly error: SvcError };
