import type { Env } from "../../bus/env.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { AgentMetrics } from "../agent-metrics.ts";
import type { AuditType } from "../audit-types.ts";
import type { RunBudget } from "../budget.ts";
import type { ComputePool } from "../compute/compute-pool.ts";
import type { Detectors } from "../detection/detectors.ts";
import type { RunHooks } from "../hooks/run-hooks.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { DenialForm } from "./denial.ts";
import type { ControlName } from "./order.ts";
import type {
  CallVerdict,
  GovernedResult,
  InputVerdict,
  QuarantinedOf,
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
  /** Changes the model's output as it arrives. Not with `reply`. A buffered output passes as one piece. */
  stream?(output: StreamedOutput): ReplyStream;
  /** Resolves when `stream` may be called. */
  ready?(): Promise<unknown>;
  /** Returns the arguments of a call as clients are shown them. The tool and the log have the call's own. */
  shows?(args: unknown): unknown;
}

/** The output of one model call that passes a control as it arrives. */
export type StreamedOutput = Pick<GovernedReply, "kind" | "agent" | "principal">;

/** Changes a text that arrives in pieces. */
export interface ReplyStream {
  /** Returns the text that is released now, possibly none. */
  take(piece: string): string;
  /** Returns the rest at the end of the text. It is not called for an output that breaks off. */
  end(): string;
  /** Returns the rule that changed the text, and records the change; null if the text is unchanged. Called once, after `end`. */
  changed(): string | null;
}

/** Creates a control for one run; null if the control has nothing to check in this run. */
export type MakeControl = (run: GovernedRun) => Control | null;

/** A check of the messages that a caller sends. It runs before the turn is accepted, so a refusal changes nothing. */
export interface InputControl {
  readonly name: ControlName;
  input(input: GovernedInput): InputVerdict | Promise<InputVerdict>;
}

/** Creates the check of callers' messages for one request; null if there is nothing to check for its agent. */
export type MakeInputControl = (entry: GovernedEntry) => InputControl | null;

/** Where a caller's text enters: a message of a turn, or the arguments of a single tool call. */
export type InputSurface = "turn" | "tool_arguments";

/** A text of an untrusted source. */
export interface TaintedText {
  readonly source: string;
  /** The event with the text; empty without a thread. */
  readonly event_id: string;
  /** Its first characters. */
  readonly text: string;
}

/** The parts of a request that input controls may use, before there is a run. */
export interface GovernedEntry {
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  readonly surface: InputSurface;
  readonly metrics: AgentMetrics;
  readonly compute: ComputePool;
  readonly detectors: Detectors;
  /** Asks models within the limits of the agent; null where no model may be asked. */
  readonly models: Questions | null;
}

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
  /** The models to ask, in order; absent for those of the agent. */
  readonly routes?: readonly ModelRoute[];
  /** Images that belong to the material; absent for none. */
  readonly images?: readonly Uint8Array[];
  /** The kind in the usage rows; absent for a call of the agent. */
  readonly kind?: "judge" | "screener";
}

/** A question that a control asks the decider of the agent. */
export interface ControlDecision {
  readonly purpose: "judges" | "content_screening";
  readonly instructions: string;
  /** The material. */
  readonly state: Readonly<Record<string, unknown>>;
  /** What each choice means. */
  readonly options: Readonly<Record<string, string>>;
}

/** The decider's answer; `unsure` below its min_confidence. */
export type ControlDecided =
  | {
      readonly kind: "decided";
      readonly choice: string;
      /** Probability of each option; null if the decider does not report them. */
      readonly probabilities: Readonly<Record<string, number>> | null;
    }
  | { readonly kind: "unsure" | "error" };

/** Asks models about one text. */
export interface Questions {
  /** See `AskModel`. */
  askModel(question: ControlQuestion): Promise<unknown>;
  /** Asks the decider of the agent, which must have one. */
  decide(question: ControlDecision): Promise<ControlDecided>;
}

/**
 * Asks a model. Resolves to null if the call fails, takes more than 20 s, exceeds the budget of the run, or returns a reply that
 * does not fit the schema. An equal question of the same run is asked once.
 */
export type AskModel = (question: ControlQuestion) => Promise<unknown>;

/**
 * The parts of a run that its controls may use. `askModel` resolves to null and `decide` to an error before the run has started.
 */
export interface GovernedRun extends Questions {
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
  /** False: calls of tools that spend or speak are denied. Set for evaluations. */
  readonly allowsEffects: boolean;
  /** The permission mode. It changes when a plan is approved. */
  readonly mode: PermissionMode;
  /** Does work that would block the event loop. */
  readonly compute: ComputePool;
  /** Finds personal data. */
  readonly detectors: Detectors;
  /** The hooks of the manifest; null without any, and before there is a run. */
  readonly hooks: RunHooks | null;
  /** Shows texts to the model in its next calls. They are not stored. */
  tellModel(texts: readonly string[]): void;
  /** Returns the key of a call, which is unique in the tenant. */
  callKey(toolCallId: string): string;
  /** Untrusted sources of the texts in the run; empty for none. */
  readonly taint: readonly string[];
  /** Returns the oldest text that the model is shown of each source, for the people who decide about a call. */
  tainted(sources: readonly string[]): readonly TaintedText[];
  /** True if a text of a user or of a tool that the model is shown contains this text. */
  hasRead(text: string): boolean;
  /**
   * Stores a long result of a tool for the conversation. Refuses with object_store_unavailable, storage_quota_exceeded and
   * storage_unavailable. Null before there is a run, when the results are those that a caller sends.
   */
  readonly storeText: ((text: string, of: StoredOf) => Promise<StoredText>) | null;
  /** Stores a result that the model must not read, for operators, and returns its id; null if it could not be stored. */
  quarantine(text: string, of: QuarantinedOf): Promise<string | null>;
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
  /** Untrusted sources of the texts in the run; empty for none. */
  readonly taint: readonly string[];
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
