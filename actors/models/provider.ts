import type { StopReason, TokenCount } from "../../bus/protocol/model-reply.ts";
import type { ToolChoice } from "../../bus/protocol/turn-options.ts";
import type { SpokenField } from "../../bus/protocol/vendor-fields.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { ModelRoute, ToolSpec } from "../../manifests/registries.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import type { ImagesOfCall } from "./images.ts";
import type { Thinking } from "./thinking.ts";

/**
 * One model call, in two forms: as JSON texts of the OpenAI chat completions protocol, which most providers use, and as data
 * from which providers with another protocol build their request.
 */
export interface ModelRequest {
  readonly route: ModelRoute;
  /** JSON of the message list, system message first. It is joined from cached texts and never parsed again. */
  readonly messages: string;
  /** JSON of the tool list; null for no tools. */
  readonly tools: string | null;
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** The system message; empty for none. */
  readonly system: string;
  /** The messages. Those with the role `system` are already in `system`. */
  readonly shown: readonly ModelMessage[];
  /** The images of those messages. */
  readonly images: ImagesOfCall;
  /** The tools; the same list object for the same agent. */
  readonly offers: readonly ToolSpec[];
  /** Null for the model's default. */
  readonly thinking: Thinking | null;
  /** True if the prompt is marked for the provider's cache, where that is necessary. */
  readonly cache: boolean;
  /** The schema of a reply without tool calls; absent or null for none. */
  readonly answer?: AnswerSchema | null;
  /** The header by which the provider continues the trace; absent if the run is not traced. */
  readonly traceparent?: string;
  /** Stop sequences; absent for none. */
  readonly stop?: readonly string[];
  /** The caller's tool choice; absent for the model's default. */
  readonly choice?: ToolUse;
  /** The question for a decision model, instead of the messages; absent for other models. */
  readonly decision?: DecisionAsked;
}

/** A question with options; the model chooses one option. */
export interface DecisionAsked {
  readonly instructions: string;
  /** The input of the decision, as JSON. */
  readonly state: Readonly<Record<string, unknown>>;
  /** Descriptions of the options; null if the name suffices. */
  readonly options: Readonly<Record<string, string | null>>;
}

/** Which tools a model may or must call, and whether in parallel; null for the model's default. */
export interface ToolUse {
  readonly tool_choice: ToolChoice | null;
  readonly parallel_tool_calls: boolean | null;
}

/** A message in the form that models receive. */
export interface ModelMessage {
  readonly role: "user" | "assistant" | "tool" | "system";
  readonly content: string;
  readonly tool_calls: readonly ToolCall[] | null;
  readonly tool_call_id: string | null;
  /** Thoughts before this message, for providers that want them back. */
  readonly thoughts: readonly SignedThought[] | null;
  /** JSON for the OpenAI protocol, without attachments, which are resolved just before each call. */
  readonly wireJson: string;
}

/**
 * A thought of a model with the provider's signature, a thought that only the provider can read, or vendor fields. It is
 * returned unchanged, and only to the model that produced it. Clients see only its text.
 */
export type SignedThought = (
  | {
      readonly type: "thinking";
      readonly thinking: string;
      /** Empty for none. */
      readonly signature: string;
      /** For a thought without a signature: the field of the message in which it is returned, or `thinking` for a block. */
      readonly field?: SpokenField | "thinking";
    }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | {
      readonly type: "vendor";
      /** The fields, as a JSON object. */
      readonly json: string;
      /** Position of the call that has the fields; absent for fields of the message. */
      readonly call?: number;
    }
) & {
  /** Provider and model. */
  readonly by: string;
  /** Its position: after this many characters of the text and calls. Absent for the start. */
  readonly at?: { readonly text: number; readonly calls: number };
};

/**
 * Receives the model's output. Tokens that arrive together come as one text. `pieces` is the number of pieces that the provider
 * sent, each at least one token; 1 if omitted.
 */
export interface ModelEvents {
  text(delta: string, pieces?: number): void;
  reasoning(delta: string, pieces?: number): void;
  /** Counts characters of tool calls; the calls themselves come with the reply. */
  calls(characters: number, pieces?: number): void;
}

/** A tool call as the model wrote it; the arguments are unverified text. */
export interface RequestedCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A complete reply. */
export interface ModelReply {
  readonly text: string;
  readonly reasoning: string;
  /** The part of the reasoning that the provider wants back; absent for none. */
  readonly thoughts?: readonly SignedThought[];
  readonly tool_calls: readonly RequestedCall[];
  readonly stop_reason: StopReason;
  /** Null if the provider reported none. */
  readonly usage: TokenCount | null;
}

/** A call in progress. */
export interface ModelCall {
  /** Rejects with ModelFailure, or with the SvcError unresolved_secret if the credential cannot be read. */
  readonly reply: Promise<ModelReply>;
  /** Ends the call; `reply` rejects with the text so far. */
  abort(): void;
  /** Pauses and resumes reading, for a slow listener. */
  pause(): void;
  resume(): void;
}

/** A provider of models. */
export interface ModelProvider {
  readonly name: string;
  /** True if the provider refuses a stop sequence of blanks only. */
  readonly refusesBlankStops?: true;
  start(request: ModelRequest, events: ModelEvents): ModelCall;
}

/** Why a call failed. The run treats it as data, never as a crash. The message is for the operator's log. */
export class ModelFailure extends Error {
  /** The message for users; contains no addresses. */
  readonly publicMessage: string;
  /** HTTP status; 0 for none. */
  readonly status: number;
  /** True if a retry may succeed. */
  readonly retryable: boolean;
  /** The pause that the provider asks for, in milliseconds; null for none. */
  readonly retryAfterMs: number | null;
  /** All text delivered before the failure. After the first text there is no retry. */
  readonly partial: string;
  readonly timedOut: boolean;
  /** The key or a header has an invalid character, so nothing was sent. */
  readonly unsendable: boolean;
  /** The prompt exceeds the model's context window. */
  readonly overflow: boolean;
  /** A content filter of the provider refused the call. */
  readonly filtered: boolean;
  /** The complete body of the refusal, unmasked. Private, because log lines show all public properties of an error. */
  readonly #refusal: string;
  /** The provider refuses one of the request's images. */
  readonly refusesImage: boolean;

  constructor(
    message: string,
    facts: {
      publicMessage?: string;
      status?: number;
      retryable?: boolean;
      retryAfterMs?: number | null;
      partial?: string;
      timedOut?: boolean;
      unsendable?: boolean;
      overflow?: boolean;
      filtered?: boolean;
      refusal?: string;
      refusesImage?: boolean;
      cause?: unknown;
    } = {},
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = "ModelFailure";
    this.publicMessage = facts.publicMessage ?? message;
    this.status = facts.status ?? 0;
    this.retryable = facts.retryable ?? false;
    this.retryAfterMs = facts.retryAfterMs ?? null;
    this.partial = facts.partial ?? "";
    this.timedOut = facts.timedOut ?? false;
    this.unsendable = facts.unsendable ?? false;
    this.overflow = facts.overflow ?? false;
    this.filtered = facts.filtered ?? false;
    this.#refusal = facts.refusal ?? "";
    this.refusesImage = facts.refusesImage ?? false;
  }

  /** Returns the complete body of a refusal, to adapt the request; empty for other failures. */
  get refusal(): string {
    return this.#refusal;
  }
}
