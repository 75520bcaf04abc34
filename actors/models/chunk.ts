import type { StopReason } from "../../bus/protocol/model-reply.ts";
import type { ChunkUsage } from "./chunk-usage.ts";

// One event of a chat completion's stream, and what the words in it mean. All of it comes from outside: nothing is there for
// certain, and nothing is of the type that it should be.

/** One `data:` line of a streamed answer, or a whole answer that is not streamed. Nothing about it is certain. */
export interface Chunk {
  readonly choices?: readonly Choice[];
  readonly usage?: ChunkUsage | null;
  readonly error?: unknown;
}

/** One of the answers of a chunk; only the first is read. */
export interface Choice {
  readonly delta?: Delta;
  /** In the place of `delta` where the answer is not streamed. */
  readonly message?: Delta;
  readonly finish_reason?: string | null;
  /** The failure of a provider that a gateway called: https://openrouter.ai/docs/api/errors. */
  readonly error?: unknown;
}

/** What a choice adds to its answer. */
export interface Delta {
  /** A list of parts at providers that stream their thinking among the content. */
  readonly content?: string | readonly ContentPart[] | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  /** Fields of a provider's own, which it wants back: see vendor-fields.ts. */
  readonly reasoning_details?: unknown;
  readonly thinking_blocks?: unknown;
  readonly extra_content?: unknown;
  /** What OpenAI's models say in the place of an answer that was to fit a schema. */
  readonly refusal?: string | null;
  readonly tool_calls?: readonly CallPart[];
}

/** A piece of content at providers that send lists of them. */
export interface ContentPart {
  readonly type?: string;
  readonly text?: string;
  readonly thinking?: string | readonly ContentPart[];
}

/** A piece of a tool call: its id and name come once, its arguments bit by bit. */
export interface CallPart {
  readonly index?: number;
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string | object };
  readonly extra_content?: unknown;
}

/** The body broke a rule of its protocol, or carried an error of the provider. */
export class ChunkError extends Error {
  /** The HTTP status that the provider gave its error inside the stream; 0 when it gave none. */
  readonly status: number;

  constructor(message: string, status = 0) {
    super(message);
    this.status = status;
  }
}

/** The answer is none of the protocol. The same request would be answered like this again, and be paid for again. */
export class MalformedAnswer extends ChunkError {}

/** The answer has brought no text, thought or call for too long. The provider may still be at work. */
export class SilentAnswer extends ChunkError {}

/**
 * Meanings of a provider's `finish_reason`, in lower case: Gemini's own names are in upper case and some gateways pass them on
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
 * Values of `finish_reason` that say that the provider failed while it answered with 200: OpenRouter and Mistral
 * (https://openrouter.ai/docs/api/errors, https://docs.mistral.ai/api/), DeepSeek
 * (https://api-docs.deepseek.com/api/create-chat-completion), Zhipu (https://docs.z.ai/api-reference/llm/chat-completion), vLLM
 * (https://github.com/vllm-project/vllm/issues/57082).
 */
const failedReasons: ReadonlySet<string> = new Set(["error", "insufficient_system_resource", "network_error", "abort"]);

/** True if the provider says with this `finish_reason` that it failed. */
export function isFailedReason(finish: string): boolean {
  return failedReasons.has(finish.toLowerCase());
}

/** Why the model stopped; `finish` is null when it did not say. */
export function stopReasonOf(finish: string | null, hasCalls: boolean): StopReason {
  const reason = finish === null ? "unknown" : (stopReasons.get(finish.toLowerCase()) ?? "unknown");
  // Some providers say "stop" beside tool calls, others "tool_calls" without one.
  if (hasCalls && reason === "end_turn") return "tool_use";
  return !hasCalls && reason === "tool_use" ? "end_turn" : reason;
}

/** An error's words as the provider put them, wherever it did. */
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

/** The HTTP status that an error inside a stream carries, 0 when it carries none. */
export function errorStatus(error: unknown): number {
  if (typeof error !== "object" || error === null) return 0;
  const { code, status } = error as { code?: unknown; status?: unknown };
  // Some write it as text.
  return [status, code].map(Number).find((value) => value >= 400 && value <= 599) ?? 0;
}

/** The words in the body of an answer that is an error; empty when there are none that a person could use. */
export function refusalText(body: string): string {
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    // An error page.
    return "";
  }
  // Google sends a list of one.
  const answer: unknown = Array.isArray(document) ? document[0] : document;
  if (typeof answer !== "object" || answer === null) return "";
  const { error, errors } = answer as { error?: unknown; errors?: unknown };
  return errorText(error ?? (Array.isArray(errors) ? errors[0] : undefined) ?? answer);
}
