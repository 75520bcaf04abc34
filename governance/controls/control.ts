import type { Env } from "../../bus/env.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { AgentMetrics } from "../agent-metrics.ts";
import type { AuditType } from "../audit-types.ts";
import type { RunBudget } from "../budget.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { DenialForm } from "./denial.ts";
import type { ControlName } from "./order.ts";
import type {
  CallVerdict,
  GovernedResult,
  InputVerdict,
  ReplyVerdict,
  ResultVerdict,
  StoredOf,
  StoredText,
} from "./verdicts.ts";

/**
 * A check around the tool calls and replies of one run. `before` judges a call before it is made, `after` judges its result, and
 * `reply` judges the model's output. An absent method passes everything.
 */
export interface Control {
  readonly name: ControlName;
  /** How denials of this control are recorded and worded; absent for the defaults. */
  readonly denials?: DenialForm;
  before?(call: GovernedCall): CallVerdict | Promise<CallVerdict>;
  after?(call: GovernedCall, result: GovernedResult): ResultVerdict | Promise<ResultVerdict>;
  /** If present, the model's output is buffered in this run until this control has released it. */
  reply?(reply: GovernedReply): ReplyVerdict | Promise<ReplyVerdict>;
}

/** Creates a control for one run; null if the control has nothing to check in this run. */
export type MakeControl = (run: GovernedRun) => Control | null;

/**
 * A check of the messages that a caller sends. It runs before the turn is accepted, so a refusal changes nothing. It cannot ask
 * a model, because no run and no budget exist yet.
 */
export interface InputControl {
  readonly name: ControlName;
  input(input: GovernedInput): InputVerdict | Promise<InputVerdict>;
}

/** Creates the check of callers' messages for an agent; null if there is nothing to check for that agent. */
export type MakeInputControl = (agent: CompiledAgent) => InputControl | null;

/** One message of a caller. */
export interface GovernedInput {
  readonly text: string;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
}

/** A question that a control asks a model. */
export interface ControlQuestion {
  /** The instructions for the model. */
  readonly task: string;
  /** The material, sent as JSON, so that no text in it can pass for instructions. */
  readonly given: unknown;
  readonly answer: AnswerSchema;
}

/**
 * Asks a model. Resolves to null if the call fails, exceeds the budget of the run, or returns a reply that does not fit the
 * schema.
 */
export type AskModel = (question: ControlQuestion) => Promise<unknown>;

/** The parts of a run that its controls may use. */
export interface GovernedRun {
  readonly agent: CompiledAgent;
  readonly budget: RunBudget;
  readonly mask: SecretMask;
  readonly metrics: AgentMetrics;
  readonly env: Env;
  /** The store, limited to the run's tenant. */
  readonly store: TenantStore;
  /** Full id of the thread; empty for a run without a thread. */
  readonly threadId: string;
  /** True if a client that could answer a question is connected to the run. */
  readonly attended: boolean;
  /** True if the run may be suspended for days while a question is open. */
  readonly durable: boolean;
  /** The permission mode. It changes when a plan is approved. */
  readonly mode: PermissionMode;
  /** Asks the agent's model within the budget of the run. Resolves to null before the run has started. */
  askModel(question: ControlQuestion): Promise<unknown>;
  /** Returns the key of a call, which is unique in the tenant. */
  callKey(toolCallId: string): string;
  /**
   * Stores a long result of a tool for the conversation. Refuses with object_store_unavailable, storage_quota_exceeded and
   * storage_unavailable. Null before there is a run, when the results are those that a caller sends.
   */
  readonly storeText: ((text: string, of: StoredOf) => Promise<StoredText>) | null;
  audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void;
  /** Logs why a control failed. */
  failed(error: unknown): void;
}

/** A call that the model asked for. The tool exists and the arguments match its schema. */
export interface GovernedCall {
  readonly tool: string;
  readonly tool_call_id: string;
  /** The arguments as the model wrote them and as the event log stores them. */
  readonly asked: unknown;
  /** The current arguments: those that a control substituted, otherwise those of the model. */
  readonly args: unknown;
  /** Returns why the arguments do not match the tool's schema, in words for the model; null if they match. */
  misfit(args: unknown): Promise<string | null>;
  /** Returns the change that the call would make, for a person to read; null if the tool has no preview. */
  preview(args: unknown): Promise<string | null>;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  /** On the monotonic clock, like the times of the budget. */
  readonly now: number;
}

/** The complete output of one model call. */
export interface GovernedReply {
  /** `thinking` is the model's reasoning, which is not part of the reply. */
  readonly kind: "text" | "thinking";
  readonly text: string;
  /** True if the output has no tool calls, so that it is the reply of the turn. */
  readonly final: boolean;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  readonly now: number;
}
