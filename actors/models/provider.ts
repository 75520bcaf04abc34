import type { StopReason, TokenCount } from "../../bus/protocol/model-reply.ts";
import type { ToolChoice } from "../../bus/protocol/turn-options.ts";
import type { SpokenField } from "../../bus/protocol/vendor-fields.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { ModelRoute, ToolSpec } from "../../manifests/registries.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import type { ImagesOfCall } from "./images.ts";
import type { Thinking } from "./thinking.ts";

/** One call of a model: as texts of the OpenAI chat completions protocol, which most providers speak, and as what these are made of. */
export interface ModelRequest {
  readonly route: ModelRoute;
  /** JSON text of the message list, the system message first. Built by joining texts that are kept, so it is not parsed again. */
  readonly messages: string;
  /** JSON text of the tool list, null when none are bound. */
  readonly tools: string | null;
  readonly temperature: number;
  readonly max_tokens: number | null;
  /** The system message, "" for none. */
  readonly system: string;
  /** The messages, of which those with the role `system` are in `system` already. */
  readonly shown: readonly ModelMessage[];
  /** The images of those messages, where they have some. */
  readonly images: ImagesOfCall;
  /** The tools. The same list for the same agent. */
  readonly offers: readonly ToolSpec[];
  /** Null leaves it to the model. */
  readonly thinking: Thinking | null;
  /** Whether the prompt is marked for the provider's cache, where a provider has to be told. */
  readonly cache: boolean;
  /** What an answer that asks for no tools has to be like; absent and null leave it to the model. */
  readonly answer?: AnswerSchema | null;
  /** Texts before which the model is to end; absent for none. */
  readonly stop?: readonly string[];
  /** What the caller says of the tools; absent leaves it to the model. */
  readonly choice?: ToolUse;
  /** What a model that decides is asked in the place of all this; absent for other models. */
  readonly decision?: DecisionAsked;
}

/** A question with options, of which one is to be chosen. */
export interface DecisionAsked {
  readonly instructions: string;
  /** What it is decided by: JSON. */
  readonly state: Readonly<Record<string, unknown>>;
  /** What each option means; null where its name says it. */
  readonly options: Readonly<Record<string, string | null>>;
}

/** Which tools a model may or must call, and whether several at once; null leaves either to the model. */
export interface ToolUse {
  readonly tool_choice: ToolChoice | null;
  readonly parallel_tool_calls: boolean | null;
}

/** A message as a model is shown it. */
export interface ModelMessage {
  readonly role: "user" | "assistant" | "tool" | "system";
  readonly content: string;
  readonly tool_calls: readonly ToolCall[] | null;
  readonly tool_call_id: string | null;
  /** What the model thought before it said this, where its provider wants it back. */
  readonly thoughts: readonly SignedThought[] | null;
  /** JSON as providers of the OpenAI protocol take it, without attachments: what those are is looked up just before each call. */
  readonly wireJson: string;
}

/**
 * A thought of a model with the provider's proof that it is its own, or one that only the provider can read, or fields that a provider
 * has added. It goes back as it came, to the model that had it and to no other, and clients never see more of it than the words.
 */
export type SignedThought = (
  | {
      readonly type: "thinking";
      readonly thinking: string;
      /** "" for none. */
      readonly signature: string;
      /** Where it goes back without a signature: a field of the message, or `thinking` for a block as it came. */
      readonly field?: SpokenField | "thinking";
    }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | {
      readonly type: "vendor";
      /** The fields: an object. */
      readonly json: string;
      /** The place of the call that they are of; absent for those of the message. */
      readonly call?: number;
    }
) & {
  /** Provider and model. */
  readonly by: string;
  /** Where it stood: behind so many characters of the text and so many of the calls. Absent before all of them. */
  readonly at?: { readonly text: number; readonly calls: number };
};

/**
 * What comes while the model speaks. Several tokens that arrive together come as one text; `pieces` is how many pieces the provider
 * has sent it in, each a token at least, and 1 when it is left out.
 */
export interface ModelEvents {
  text(delta: string, pieces?: number): void;
  reasoning(delta: string, pieces?: number): void;
  /** Counts what the model has written of tool calls; they themselves come with the reply. */
  calls(characters: number, pieces?: number): void;
}

/** A tool call as the model wrote it: the arguments are text and not to be trusted. */
export interface RequestedCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** An answer that is complete. */
export interface ModelReply {
  readonly text: string;
  readonly reasoning: string;
  /** What of the reasoning the provider wants back; absent where it wants none. */
  readonly thoughts?: readonly SignedThought[];
  readonly tool_calls: readonly RequestedCall[];
  readonly stop_reason: StopReason;
  /** Null when the provider reported none. */
  readonly usage: TokenCount | null;
}

/** A call under way. */
export interface ModelCall {
  /** Rejects with ModelFailure, or with the SvcError unresolved_secret when the credential cannot be looked up. */
  readonly reply: Promise<ModelReply>;
  /** Ends the call; `reply` rejects, with what was said so far. */
  abort(): void;
  /** Stops and resumes reading, for a listener that is behind. */
  pause(): void;
  resume(): void;
}

/** Something that answers model requests. */
export interface ModelProvider {
  readonly name: string;
  /** It refuses a stop text that has nothing but blanks. */
  readonly refusesBlankStops?: true;
  start(request: ModelRequest, events: ModelEvents): ModelCall;
}

/** Why a call failed. It is data for the run, never a crash. The message is for the operator's log. */
export class ModelFailure extends Error {
  /** The message for whoever talks to the agent: it names no address. */
  readonly told: string;
  /** HTTP status, 0 when there was none. */
  readonly status: number;
  /** Whether the same call may succeed when it is made again. */
  readonly retryable: boolean;
  /** What the provider asked for, in milliseconds; null when it did not say. */
  readonly retryAfterMs: number | null;
  /** All text that had been told before. Once something was said, the call is not made again. */
  readonly partial: string;
  readonly timedOut: boolean;
  /** The key or a header has what no request can carry, so that nothing was sent. */
  readonly unsendable: boolean;
  /** The prompt is longer than the model takes. */
  readonly overflow: boolean;
  /** A content filter of the provider has refused it. */
  readonly filtered: boolean;
  /** The refusal's whole body, unmasked. Private, because a log line shows all public properties of an error. */
  readonly #refusal: string;
  /** The provider does not take one of the request's images. */
  readonly refusesImage: boolean;

  constructor(
    message: string,
    facts: {
      told?: string;
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
    this.told = facts.told ?? message;
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

  /** All that the provider has said in its refusal, for what mends the request; "" for another failure. */
  get refusal(): string {
    return this.#refusal;
  }
}
