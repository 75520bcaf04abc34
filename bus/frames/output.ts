import type { SvcError } from "../errors.ts";
import type { StopReason, TurnUsage } from "../protocol/model-reply.ts";
import type { TurnAnswer } from "../protocol/turn-answer.ts";

/** An approval request in the answer of a turn. */
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

/** Result of a requested compaction. */
export interface CompactionResult {
  /** False if there was nothing to summarize, or the compaction was stopped. */
  readonly compacted: boolean;
  readonly event_id: string | null;
  /** Estimated tokens of the messages that the model reads. */
  readonly tokens_before: number;
  readonly tokens_after: number;
}

/** The result of a run of one call. */
export interface CalledTool {
  readonly text: string;
  readonly status: "ok" | "error" | "denied";
}

/** A tool call that the client of the request executes. */
export interface HandedCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}

/** Frames that separate two steps of the model. */
export const partingFrames: ReadonlySet<string> = new Set(["tool_start", "tool_end", "steer", "follow_up"]);

/** Code of a failed model call in the OpenAI protocol (decision 212: failures map to these codes). */
export type FailureCode =
  | "context_length_exceeded"
  | "content_filter"
  | "rate_limit_exceeded"
  | "provider_auth"
  | "model_unavailable";

/** The failure of a model call, as far as a client can act on it. */
export interface FailedCall {
  readonly code: FailureCode;
  /** Retry delay that the provider asked for, in milliseconds; null if it gave none. */
  readonly retryAfterMs: number | null;
}

/** Complete result of a turn. */
export interface RunResult {
  /** The reply, possibly partial; null if there is none. */
  readonly final: string | null;
  /** JSON of the message list: the messages of the last model call, and those of this turn. */
  readonly messagesJson: string;
  readonly stop_reason: StopReason;
  /** Calls that the client executes; the answer ends with them. */
  readonly handed: readonly HandedCall[];
  /** Null if no provider reported usage. */
  readonly usage: TurnUsage | null;
  /** The route that answered. */
  readonly model: string;
  /** Full id, empty for a turn without a thread. */
  readonly thread_id: string;
  readonly leaf_id: string;
  readonly aborted: boolean;
  /** All approval requests that the run has waited for. */
  readonly approvals: readonly AskedApproval[];
  /** Result of POST /chat/compact; absent for turns. */
  readonly compaction?: CompactionResult;
  /** Result of a single call; absent for turns, and if the call was not made. */
  readonly called?: CalledTool;
  /** Text of a model failure for the client; null on success. */
  readonly failure: string | null;
  /** Set if a control withheld the reply. */
  readonly withheld?: true;
  /** Set if the failure is that of a required tool. */
  readonly failedTool?: true;
  /** The failed model call; absent without one. */
  readonly failedCall?: FailedCall;
  /** Set if a tool call that may change something was started, so that a second run could repeat the change. */
  readonly hasActed?: true;
  /** Untrusted sources of the texts in the run; absent for none. */
  readonly taint?: readonly string[];
}

/** Bodies of an entry point without a stream. */
export interface RunAnswers {
  finished(result: RunResult): TurnAnswer;
  failed(error: SvcError): TurnAnswer;
}

/**
 * The output of a run to its client, in the requested form. The run calls `finished` or `failed` once, as the last
 * call. `id` is the thread's next sequence number, -1 without a thread.
 */
export interface RunOutput {
  /**
   * Builds the final body, so that an idempotency key can store it. Absent on entry points that answer as POST /chat
   * does.
   */
  readonly answers?: RunAnswers;
  /** False while the reader is behind; the run then stops reading the model. */
  readonly writable: boolean;
  onWritable(work: () => void): void;
  started(): void;
  text(delta: string): void;
  thinking(delta: string): void;
  frame(name: string, data: unknown, id: number): void;
  finished(result: RunResult, id: number): void;
  /** Ends the output after a failure that is not the model's. Nothing was reported as durable that is not. */
  failed(error: SvcError): void;
}
