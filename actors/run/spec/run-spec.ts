import type { SvcError } from "../../../bus/errors.ts";
import type { RunResult } from "../../../bus/frames/output.ts";
import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { EntryPoint, ParentRun, ResponseAsked, TriggerDelivery } from "../../../bus/protocol/run.ts";
import type { TurnOptions } from "../../../bus/protocol/turn-options.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ModelRoute, ToolEffect } from "../../../manifests/registries.ts";
import type { LogEvent, ToolCall } from "../../../storage/tables/events.ts";
import type { RunSpent } from "../../../storage/tables/runs.ts";
import type { WaitRow } from "../../../storage/tables/waits.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { AskedKey, QueuedCount } from "../../log/messages.ts";
import type { Thinking } from "../../models/thinking.ts";
import type { Foreseen } from "../../tools/tool.ts";
import type { DurableRun } from "./durable-run.ts";
import type { RunNote } from "./notes.ts";

/** A turn that was admitted: everything about it is known and allowed. */
export interface RunSpec {
  readonly run_id: string;
  readonly request_id: string;
  readonly surface: EntryPoint;
  readonly principal: Principal;
  readonly agent: CompiledAgent;
  /** The style of answering that the conversation has picked; null when it has picked none. */
  readonly outputStyle: string | null;
  /** What the run may do without asking as it begins, or goes on. */
  readonly mode: PermissionMode;
  /** The agent's, with the style; the same for every model call. */
  readonly systemPrompt: string;
  /** The model of this turn, then the manifest's fallbacks. */
  readonly routes: readonly ModelRoute[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** How hard the model is asked to think: what the conversation says, else the manifest. */
  readonly thinking: Thinking | null;
  readonly thread_suffix: string | null;
  /** The run that has handed out this one as a task; null where a caller has asked for it. */
  readonly parent: ParentRun | null;
  /** What it spends with its tasks is in the store already. */
  readonly isShared: boolean;
  /** Of POST /v1/responses; null on other entry points. */
  readonly response: ResponseAsked | null;
  /** Of the OpenAI entry point; null where the request has none. */
  readonly options: TurnOptions | null;
  /** What has set it going; null where somebody has asked for it. */
  readonly trigger: TriggerDelivery | null;
  /** The caller's words, for audit; null when there are none. */
  readonly userText: string | null;
  readonly startedAt: number;
  /** The run whose name the keys of its calls bear: its own, or the first of those that it goes on with. */
  readonly keyedAs: string;
  /** The first event of the failed turn that this one goes on with; null for a turn of its own. */
  readonly againOf: number | null;
  /** Where its rows belong in the store, -1 without a thread. */
  readonly thread_key: number;
  /** What a run that was put aside goes on with; null for one that begins. */
  readonly resumed: Resumed | null;
  /** What waited for the run as it began or was taken up; null for nothing. */
  readonly queued: QueuedCount | null;
  /** The key that is settled with the turn's last batch. */
  readonly idempotency: AskedKey | null;
  /** The sequence number of the turn's first event. */
  readonly fromSeq: number;
}

/** What a run, or an agent in it, starts with. */
export interface RunStart {
  readonly spec: RunSpec;
  /** The history that the model may be shown, with the caller's new messages last. The run adds to it. */
  readonly branch: ContextMessage[];
  /** Index of the first message of this turn in `branch`. */
  readonly turnStart: number;
  /** Shown to the model at its first call, as the caller's words, and not stored. */
  readonly ephemeralInstruction: string | null;
  /** How a durable run stores its progress; null for every other run. */
  readonly durableRun: DurableRun | null;
}

/** Where a run was that was put aside. */
export interface Resumed {
  /** How often it has asked its model since the last of its notes. */
  readonly step: number;
  /** The calls of the last time that have no result. */
  readonly calls: readonly PendingCall[];
  /** Whether the last of the calls of the last time was denied; null while that has no result, and where there was none. */
  readonly endedOnDenial: boolean | null;
  /** Its answer, where that is in the log and the end of the run is not; null else. */
  readonly answer: GivenAnswer | null;
  /** The ids of all its calls. */
  readonly callIds: readonly string[];
  readonly spent: RunSpent | null;
  /** What its pattern has written down, oldest first. */
  readonly notes: readonly RunNote[];
  /** What its sub-agents have in the log. */
  readonly ofSubAgents: readonly LogEvent[];
  /** What it waits for, its sub-agents with it. */
  readonly waits: readonly WaitRow[];
  /** The requests for approval that it has waited for. */
  readonly approvals: readonly string[];
}

/** An answer that the log has. */
export interface GivenAnswer {
  readonly text: string;
  readonly stop_reason: StopReason;
}

/** A call that is to be made, or to go on where it waits. */
export interface PendingCall {
  readonly call: ToolCall;
  /** The arguments as the model wrote them; those of a call from the log are as the log has them. */
  readonly argumentsText?: string;
  /** It was handed to the client of the request before the run was put aside. */
  readonly isHanded?: boolean;
  /** Its process ended while it was being made. */
  readonly begun?: BegunCall;
  readonly wait: WaitRow | null;
  /** Resolves when the reply that asks for it is in the log and told of; absent where that was long ago. */
  readonly replied?: Promise<void>;
}

/** A call of which it is not known how far it has come. */
export interface BegunCall {
  readonly effect: ToolEffect;
  /** As the controls have made them; undefined where they are the model's own. */
  readonly args: ToolCall["args"] | undefined;
  /** A person has edited the arguments. */
  readonly isEdited: boolean;
  /** What it was about to do; null where nothing tells whether it was done. */
  readonly foreseen: Foreseen | null;
}

/** How a run is over: with a result, be it an aborted one, or without one, because the server stops or refuses something on the way. */
export type RunOutcome =
  | { readonly kind: "finished"; readonly result: RunResult }
  | { readonly kind: "failed"; readonly error: SvcError };
