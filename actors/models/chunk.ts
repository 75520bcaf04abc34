import type { StopReason } from "../../bus/protocol/model-reply.ts";
import type { ChunkUsage } from "./chunk-usage.ts";

// Types and interpretation of one chat completion event. All of it is external input: any field may be missing or have another
// type.

/** One `data:` line of a stream, or a complete response. All fields are unverified. */
export interface Chunk {
  readonly choices?: readonly Choice[];
  readonly usage?: ChunkUsage | null;
  readonly error?: unknown;
}

/** One choice of a chunk; only the first is read. */
export interface Choice {
  readonly delta?: Delta;
  /** Replaces `delta` in a response that is not streamed. */
  readonly message?: Delta;
  readonly finish_reason?: string | null;
  /** An error of the provider that a gateway called: https://openrouter.ai/docs/api/errors. */
  readonly error?: unknown;
}

/** The content that a choice adds. */
export interface Delta {
  /** A list of parts, from providers that stream thoughts within the content. */
  readonly content?: string | readonly ContentPart[] | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  /** Vendor-specific fields, which are returned to the provider: see vendor-fields.ts. */
  readonly reasoning_details?: unknown;
  readonly thinking_blocks?: unknown;
  readonly extra_content?: unknown;
  /** The refusal of OpenAI's models to give a structured reply. */
  readonly refusal?: string | null;
  readonly tool_calls?: readonly CallPart[];
}

/** A part of the content, from providers that send a list. */
export interface ContentPart {
  readonly type?: string;
  readonly text?: string;
  readonly thinking?: string | readonly ContentPart[];
}

/** A piece of a tool call: id and name come once, the arguments incrementally. */
export interface CallPart {
  readonly index?: number;
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string | object };
  readonly extra_content?: unknown;
}

/** Thrown if the response violates its protocol, or contains an error of the provider. */
export class ChunkError extends Error {
  /** The HTTP status of the error inside the stream; 0 if it has none. */
  readonly status: number;

  constructor(message: string, status = 0) {
    super(message);
    this.status = status;
  }
}

/** Thrown if the response violates its protocol in a way that a retry would repeat, at full cost. */
export class MalformedAnswer extends ChunkError {}

/** Thrown if the stream had no text, thought or call for too long. The provider may still be working. */
export class SilentAnswer extends ChunkError {}

/**
 * Meanings of `finish_reason`, in lower case. Some gateways pass on Gemini's names in upper case
 * (https://ai.google.dev/api/generate-content#FinishReason). `model_length` is Mistral's (https://docs.mistral.ai/api/),
 * `sensitive` and `model_context_window_exceeded` are Zhipu's (https://docs.z.ai/api-reference/llm/chat-completion).
 */
const stopReasons: ReadonlyMap<string, StopReason> = new Map([
  ["stop", "end_turn"],
  ["length", "max_tokens"],
  ["model_length", "max_tokens"],
  ["model_context_window_exceeded", "max_tokens"],
  ["tool_calls", "tool_use"],
  ["function_call", "tool_use"],
  ["content_filter", "refusal"],
  ["sensitive", "refusal"],
  ["end_turn", "end_turn"],
  ["tool_use", "tool_use"],
  ["max_tokens", "max_tokens"],
  ["stop_sequence", "stop_sequence"],
  ["pause_turn", "pause_turn"],
  ["refusal", "refusal"],
]);

/**
 * Values of `finish_reason` for a provider failure with status 200: OpenRouter and Mistral
 * (https://openrouter.ai/docs/api/errors, https://docs.mistral.ai/api/), DeepSeek
 * (https://api-docs.deepseek.com/api/create-chat-completion), Zhipu (https://docs.z.ai/api-reference/llm/chat-completion), vLLM
 * (https://github.com/vllm-project/vllm/issues/57082).
 */
const failedReasons: ReadonlySet<string> = new Set(["error", "insufficient_system_resource", "network_error", "abort"]);

/** True if this `finish_reason` means that the provider failed. */
export function isFailedReason(finish: string): boolean {
  return failedReasons.has(finish.toLowerCase());
}

/** Returns why the model stopped; `finish` is null if the provider did not say. */
export function stopReasonOf(finish: string | null, hasCalls: boolean): StopReason {
  const reason = finish === null ? "unknown" : (stopReasons.get(finish.toLowerCase()) ?? "unknown");
  // Some providers report "stop" with tool calls, others "tool_calls" without any.
  if (hasCalls && reason === "end_turn") return "tool_use";
  return !hasCalls && reason === "tool_use" ? "end_turn" : reason;
}

/** Returns the provider's text of an error, from whichever field has it. */
export function errorText(error: unknown): string {
  if (typeof error === "string" && error !== "") return error;
  if (typeof error === "object" && error !== null) {
    for (const key of ["message", "detail", "error"] as const) {
      const words = (error as Record<string, unknown>)[key];
      if (typeof words === "string" && words !== "") return words;
    }
  }
  return "the provider reported an error";
}

/** Returns the HTTP status of an error inside a stream; 0 if it has none. */
export function errorStatus(error: unknown): number {
  if (typeof error !== "object" || error === null) return 0;
  const { code, status } = error as { code?: unknown; status?: unknown };
  // Some providers send the status as text.
  return [status, code].map(Number).find((value) => value >= 400 && value <= 599) ?? 0;
}

/** Returns the error text of a response body; empty if it has none for people. */
export function refusalText(body: string): string {
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    // An HTML error page.
    return "";
  }
  // Google sends a list with one item.
  const answer: unknown = Array.isArray(document) ? document[0] : document;
  if (typeof answer !== "object" || answer === null) return "";
  const { error, errors } = answer as { error?: unknown; errors?: unknown };
  return errorText(error ?? (Array.isArray(errors) ? errors[0] : undefined) ?? answer);
}
