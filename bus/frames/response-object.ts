import type { StopReason, TurnUsage } from "../protocol/model-reply.ts";
import type { ResponseAsked } from "../protocol/run.ts";
import type { TurnOptions } from "../protocol/turn-options.ts";
import type { FailureCode, HandedCall } from "./output.ts";

// The response object of POST /v1/responses: a turn, as its answer tells it and as it can be read again.

/** What a response is from its first event on. */
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

/** Whether a response goes on, and how it has ended. */
export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "cancelled" | "failed";

/** Where a response stands. */
export interface ResponseState {
  readonly status: ResponseStatus;
  readonly output: readonly object[];
  /** Null while it goes on. */
  readonly stop_reason: StopReason | null;
  readonly usage: TurnUsage | null;
  /** Why it has failed, in words that its client may read; null where it has not. */
  readonly failure: string | null;
  /** Code of the failure; absent if unknown. */
  readonly failure_code?: FailureCode;
}

const threadPrefix = "resp-";
const hex = (digits: number) => `[0-9a-f]{${digits}}`;
const idPattern = new RegExp(`^resp_(${hex(32)})(${hex(16)})$`);

/** The suffix of a conversation that begins with a response; `id` has 32 hexadecimal digits. */
export function responseThread(id: string): string {
  return threadPrefix + id;
}

/** The id of the response whose first event has this sequence number; of one that is not kept, of its run. */
export function responseId(suffix: string | null, runId: string, firstSeq: number): string {
  const place = suffix === null ? runId : suffix.slice(threadPrefix.length);
  return `resp_${place}${firstSeq.toString(16).padStart(16, "0")}`;
}

/** Where a response is kept if there is one of this id; null for what is no id. */
export function placeOfResponse(id: string): { readonly suffix: string; readonly firstSeq: number } | null {
  const [, thread, seq] = idPattern.exec(id) ?? [];
  if (thread === undefined || seq === undefined) return null;
  return { suffix: responseThread(thread), firstSeq: Number.parseInt(seq, 16) };
}

/** How a turn has ended, in this protocol's words; `error` is what has kept it from its end. */
export function endStatus(stopReason: StopReason | null, error: string | null): ResponseStatus {
  if (error !== null) return error === "aborted" ? "cancelled" : "failed";
  return stopReason !== null && stopReason in incompleteReasons ? "incomplete" : "completed";
}

const incompleteReasons: Readonly<Partial<Record<StopReason, string>>> = {
  max_tokens: "max_output_tokens",
  max_turns: "max_output_tokens",
  refusal: "content_filter",
};

/** What the model has said in one step. */
export function messageItem(id: string, text: string, status: "in_progress" | "completed" | "incomplete") {
  return { id, type: "message", role: "assistant", status, content: [textPart(text)] };
}

/** What the model has thought in one step. */
export function reasoningItem(id: string, text: string, status: "in_progress" | "completed" | "incomplete") {
  return { id, type: "reasoning", summary: [], status, content: [reasoningPart(text)] };
}

/** A call that the client is to make. */
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

/** A part of a message. */
export function textPart(text: string) {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** A part of what was thought. */
export function reasoningPart(text: string) {
  return { type: "reasoning_text", text };
}

/** The id of an item of a response, by its place in the output. */
export function itemId(kind: "msg" | "rs" | "fc", responseId: string, index: number): string {
  return `${kind}_${responseId.slice("resp_".length)}_${index}`;
}

/** Where an item stands that has such an id; null for what is no id. */
export function placeOfItem(id: string): { readonly responseId: string; readonly index: number } | null {
  const [, response, index] = /^(?:msg|rs|fc)_([0-9a-f]{48})_(\d{1,6})$/.exec(id) ?? [];
  return response === undefined ? null : { responseId: `resp_${response}`, index: Number(index) };
}

/** Whether the item that a turn has ended in is all there. */
export function lastItemStatus(status: ResponseStatus, stopReason: StopReason | null): "completed" | "incomplete" {
  return status === "completed" || (status === "incomplete" && stopReason === "max_turns") ? "completed" : "incomplete";
}

/** The object itself. */
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

/** The Responses API calls a failed server `server_error`. */
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
