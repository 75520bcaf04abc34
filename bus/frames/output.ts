import type { SvcError } from "../errors.ts";
import type { StopReason, TurnUsage } from "../protocol/model-reply.ts";
import type { TurnAnswer } from "../protocol/run.ts";

/** A request for approval as the answer of a turn tells it. */
export interface AskedApproval {
  readonly approval_id: string;
  readonly tool_name: string;
  readonly args: unknown;
  readonly rule_id: string;
  readonly reason: string;
  readonly thread_id: string;
  readonly tool_call_id: string;
  readonly expires_at: number | null;
  readonly status: "approved" | "denied" | "expired";
}

/** What came of a compaction that somebody has asked for. */
export interface CompactionResult {
  /** False when there was nothing to sum up, or it was stopped. */
  readonly compacted: boolean;
  readonly event_id: string | null;
  /** Of the messages that the model reads, by estimate. */
  readonly tokens_before: number;
  readonly tokens_after: number;
}

/** A call of a tool that the client of the request has. */
export interface HandedCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}

/** Frames that stand between two steps of the model. */
export const partingFrames: ReadonlySet<string> = new Set(["tool_start", "tool_end", "steer", "follow_up"]);

/** Code of a failed model call in the OpenAI protocol (decision 212). */
export type FailureCode =
  | "context_length_exceeded"
  | "content_filter"
  | "rate_limit_exceeded"
  | "provider_auth"
  | "model_unavailable";

/** The failure of a model call, as far as a client can act on it. */
export interface FailedCall {
  readonly code: FailureCode;
  /** The pause that the provider asked for, in milliseconds; null when it did not say. */
  readonly retryAfterMs: number | null;
}

/** How a turn ended, in full. */
export interface RunResult {
  /** The reply, or as much of it as came; null when nothing came. */
  readonly final: string | null;
  /** JSON text of the message list: what the last model call was shown, and this turn's messages. */
  readonly messagesJson: string;
  readonly stop_reason: StopReason;
  /** Calls that the client is to make: the answer ends in them. */
  readonly handed: readonly HandedCall[];
  /** Null when no provider reported any. */
  readonly usage: TurnUsage | null;
  /** The route that answered. */
  readonly model: string;
  /** Full id, empty for a stateless turn. */
  readonly thread_id: string;
  readonly leaf_id: string;
  readonly aborted: boolean;
  /** Every request for approval that the run has waited for. */
  readonly approvals: readonly AskedApproval[];
  /** What POST /chat/compact has come to; absent in turns. */
  readonly compaction?: CompactionResult;
  /** The model failed, in words that a client may read; null when it did not. */
  readonly failure: string | null;
  /** What failed is a tool without which the run was not to go on. */
  readonly failedTool?: true;
  /** The model call that failed; absent where none did, and where the run is read from a log of an earlier release. */
  readonly failedCall?: FailedCall;
  /** A call of a tool that may change something was begun: a second run of the turn could do it again. */
  readonly hasActed?: true;
}

/** The bodies of an entry point that is not streamed. */
export interface RunAnswers {
  finished(result: RunResult): TurnAnswer;
  failed(error: SvcError): TurnAnswer;
}

/**
 * What a run says to the one who started it, in the form that was asked for. The run calls `finished` or `failed` once, last.
 * `id` is the thread's next sequence number, -1 without a thread.
 */
export interface RunOutput {
  /** Builds the final body, so that an idempotency key can store it. Absent on entry points that answer as POST /chat does. */
  readonly answers?: RunAnswers;
  /** False while whoever reads is behind: the run then stops reading the model. */
  readonly writable: boolean;
  onWritable(work: () => void): void;
  started(): void;
  text(delta: string): void;
  thinking(delta: string): void;
  frame(name: string, data: unknown, id: number): void;
  finished(result: RunResult, id: number): void;
  /** Something other than the model failed; nothing that was not durable has been shown as such. */
  failed(error: SvcError): void;
}
