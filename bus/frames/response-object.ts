import type { StopReason, TurnUsage } from "../protocol/model-reply.ts";
import type { ResponseAsked } from "../protocol/run.ts";
import type { TurnOptions } from "../protocol/turn-options.ts";
import type { FailureCode, HandedCall } from "./output.ts";

// The response object of POST /v1/responses, for the answer of a turn and for later reads.

/** The fields of a response that are known from its first event on. */
export interface ResponseHead {
  /** `resp_` and 48 hexadecimal digits. */
  readonly id: string;
  /** Epoch seconds. */
  readonly created_at: number;
  /** The manifest's name. */
  readonly model: string;
  readonly asked: ResponseAsked;
  readonly options: TurnOptions | null;
}

/** Status of a response. */
export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "cancelled" | "failed";

/** State of a response. */
export interface ResponseState {
  readonly status: ResponseStatus;
  readonly output: readonly object[];
  /** Null until the end. */
  readonly stop_reason: StopReason | null;
  readonly usage: TurnUsage | null;
  /** Text of the failure for the client; null on success. */
  readonly failure: string | null;
  /** Code of the failure; absent if unknown. */
  readonly failure_code?: FailureCode;
}

const threadPrefix = "resp-";
const hex = (digits: number) => `[0-9a-f]{${digits}}`;
const idPattern = new RegExp(`^resp_(${hex(32)})(${hex(16)})$`);

/** Returns the suffix of a thread that starts with a response; `id` has 32 hexadecimal digits. */
export function responseThread(id: string): string {
  return threadPrefix + id;
}

/**
 * Returns the id of a response. It holds the thread and the sequence number of its first event, or the run's id if it
 * is not stored.
 */
export function responseId(suffix: string | null, runId: string, firstSeq: number): string {
  const place = suffix === null ? runId : suffix.slice(threadPrefix.length);
  return `resp_${place}${firstSeq.toString(16).padStart(16, "0")}`;
}

/** Returns thread and first event of a response id; null for an invalid id. */
export function placeOfResponse(id: string): { readonly suffix: string; readonly firstSeq: number } | null {
  const [, thread, seq] = idPattern.exec(id) ?? [];
  if (thread === undefined || seq === undefined) return null;
  return { suffix: responseThread(thread), firstSeq: Number.parseInt(seq, 16) };
}

/** Returns the final status of a turn in this protocol; `error` is the code of a failure, or null. */
export function endStatus(stopReason: StopReason | null, error: string | null): ResponseStatus {
  if (error !== null) return error === "aborted" ? "cancelled" : "failed";
  return stopReason !== null && stopReason in incompleteReasons ? "incomplete" : "completed";
}

const incompleteReasons: Readonly<Partial<Record<StopReason, string>>> = {
  max_tokens: "max_output_tokens",
  max_turns: "max_output_tokens",
  refusal: "content_filter",
};

/** Returns the item of the model's text in one step. */
export function messageItem(id: string, text: string, status: "in_progress" | "completed" | "incomplete") {
  return { id, type: "message", role: "assistant", status, content: [textPart(text)] };
}

/** Returns the item of the model's reasoning in one step. */
export function reasoningItem(id: string, text: string, status: "in_progress" | "completed" | "incomplete") {
  return { id, type: "reasoning", summary: [], status, content: [reasoningPart(text)] };
}

/** Returns the item of a call that the client executes. */
export function callItem(id: string, call: HandedCall) {
  return {
    id,
    type: "function_call",
    status: "completed",
    call_id: call.id,
    name: call.name,
    arguments: JSON.stringify(call.args),
  };
}

/** Returns a content part of a message. */
export function textPart(text: string) {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** Returns a content part of reasoning. */
export function reasoningPart(text: string) {
  return { type: "reasoning_text", text };
}

/** Returns the id of an output item by its index. */
export function itemId(kind: "msg" | "rs" | "fc", responseId: string, index: number): string {
  return `${kind}_${responseId.slice("resp_".length)}_${index}`;
}

/** Returns response and index of an item id; null for an invalid id. */
export function placeOfItem(id: string): { readonly responseId: string; readonly index: number } | null {
  const [, response, index] = /^(?:msg|rs|fc)_([0-9a-f]{48})_(\d{1,6})$/.exec(id) ?? [];
  return response === undefined ? null : { responseId: `resp_${response}`, index: Number(index) };
}

/** Returns the status of the last item of a turn. */
export function lastItemStatus(status: ResponseStatus, stopReason: StopReason | null): "completed" | "incomplete" {
  return status === "completed" || (status === "incomplete" && stopReason === "max_turns") ? "completed" : "incomplete";
}

/** Returns the response object. */
export function responseObject({ id, created_at, model, asked, options }: ResponseHead, state: ResponseState) {
  const { status, output, stop_reason, usage, failure } = state;
  const reason = status === "incomplete" && stop_reason !== null ? incompleteReasons[stop_reason] : undefined;
  return {
    id,
    object: "response",
    created_at,
    status,
    background: asked.background ?? false,
    error: status === "failed" ? { code: errorCode(state), message: failure ?? "the turn has failed" } : null,
    incomplete_details: reason === undefined ? null : { reason },
    instructions: asked.instructions,
    max_output_tokens: asked.max_output_tokens,
    model,
    output,
    parallel_tool_calls: options?.parallel_tool_calls ?? true,
    previous_response_id: asked.previous_response_id,
    reasoning: { effort: null, summary: null },
    store: asked.store,
    temperature: asked.temperature,
    text: { format: options?.response_format ?? { type: "text" } },
    tool_choice: choiceOf(options),
    tools: options?.tools.map((tool) => ({ type: "function", ...tool })) ?? [],
    top_p: null,
    truncation: "disabled",
    usage: usageOf(usage),
    metadata: asked.metadata,
  };
}

/** The Responses API has the code `server_error` for an unavailable model. */
function errorCode({ failure_code = "model_unavailable" }: ResponseState): string {
  return failure_code === "model_unavailable" ? "server_error" : failure_code;
}

function choiceOf(options: TurnOptions | null) {
  const choice = options?.tool_choice ?? "auto";
  return typeof choice === "object" ? { type: "function", ...choice } : choice;
}

function usageOf(usage: TurnUsage | null) {
  if (usage === null) return null;
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: input + usage.output,
  };
}
