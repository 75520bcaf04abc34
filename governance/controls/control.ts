import type { Env } from "../../bus/env.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { AgentMetrics } from "../agent-metrics.ts";
import type { RunBudget } from "../budget.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { ControlName } from "./order.ts";
import type { CallVerdict, GovernedResult, ReplyVerdict, ResultVerdict } from "./verdicts.ts";

/**
 * One layer around a run. `before` speaks on calls that are about to be made, `after` on what came of calls that were, `reply` on
 * what the model says. What it does not speak on passes.
 */
export interface Control {
  readonly name: ControlName;
  before?(call: GovernedCall): CallVerdict | Promise<CallVerdict>;
  after?(call: GovernedCall, result: GovernedResult): ResultVerdict | Promise<ResultVerdict>;
  /** With it, nothing that the model says in this run is passed on before it was released. */
  reply?(reply: GovernedReply): ReplyVerdict | Promise<ReplyVerdict>;
}

/** Makes a control for one run; null when it has nothing to do in this run, which is then spared the asking. */
export type MakeControl = (run: GovernedRun) => Control | null;

/** What a control may know of the run that it is made for. */
export interface GovernedRun {
  readonly agent: CompiledAgent;
  readonly budget: RunBudget;
  readonly mask: SecretMask;
  readonly metrics: AgentMetrics;
  readonly env: Env;
  /** What the tenant of the run keeps. */
  readonly store: TenantStore;
  /** Full id of the thread, empty without one. */
  readonly threadId: string;
  /** Whether somebody waits for the run who could see to a question. */
  readonly attended: boolean;
  /** Whether it may be put aside for days, so that somebody is found who sees to a question. */
  readonly durable: boolean;
  /** What it may do without asking. It changes when a plan is approved. */
  readonly mode: PermissionMode;
  /** A call of this run as the whole tenant knows it. */
  callKey(toolCallId: string): string;
  /** Writes an audit row of the run. */
  audit(event_type: string, status: string, payload: Readonly<Record<string, unknown>>): void;
  /** Logs why a control could not judge. */
  failed(error: unknown): void;
}

/** A call that the model asked for. Its name is that of a bound tool, and its arguments have passed the tool's schema. */
export interface GovernedCall {
  readonly tool: string;
  readonly tool_call_id: string;
  /** The arguments as the model wrote them and the log keeps them. */
  readonly asked: unknown;
  /** The arguments as they stand: what a control has put in their place, else what the model wrote. */
  readonly args: unknown;
  /** Why a tool would not take these arguments, in words for the model; null when it would. */
  misfit(args: unknown): Promise<string | null>;
  /** What the call would change with these arguments, for a person to read; null where its tool has nothing to show. */
  preview(args: unknown): Promise<string | null>;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  /** On the monotonic clock, as the times of the budget. */
  readonly now: number;
}

/** What one model call has said, whole. */
export interface GovernedReply {
  /** `thinking` is the model's reasoning, which is no part of the reply. */
  readonly kind: "text" | "thinking";
  readonly text: string;
  /** Whether the model asks for no tools: then this is the reply of the turn. */
  readonly final: boolean;
  readonly agent: CompiledAgent;
  readonly principal: Principal;
  readonly now: number;
}
