import type { StopReason, TokenCount } from "../../bus/protocol/model-reply.ts";
import { soundText } from "../../bus/sound-text.ts";
import { ArgumentText } from "./argument-text.ts";
import { toolName } from "./call-drafts.ts";
import { ChunkError, errorText, MalformedAnswer, stopReasonOf } from "./chunk.ts";
import { count } from "./chunk-usage.ts";
import { EventStream, parseEvent } from "./event-stream.ts";
import type { ModelEvents, ModelReply, RequestedCall, SignedThought } from "./provider.ts";

/** Max blocks in one reply; more are an attack or a defect. */
const blocksMax = 4096;

/** Characters counted for each block in addition to its text. */
const blockOverhead = 64;

/** One event of the stream. All fields are unverified. */
interface MessageEvent {
  readonly type?: unknown;
  readonly index?: unknown;
  readonly message?: { readonly usage?: MessageUsage | null } | null;
  readonly content_block?: ContentBlock | null;
  readonly delta?: BlockDelta | null;
  readonly usage?: MessageUsage | null;
  readonly error?: { readonly type?: unknown } | null;
  /** For a reply that was not streamed. */
  readonly content?: unknown;
  readonly stop_reason?: unknown;
}

interface ContentBlock {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly thinking?: unknown;
  readonly signature?: unknown;
  readonly data?: unknown;
  readonly id?: unknown;
  readonly name?: unknown;
  readonly input?: unknown;
}

interface BlockDelta {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly thinking?: unknown;
  readonly signature?: unknown;
  readonly partial_json?: unknown;
  readonly stop_reason?: unknown;
}

interface MessageUsage {
  readonly input_tokens?: unknown;
  readonly output_tokens?: unknown;
  readonly cache_read_input_tokens?: unknown;
  readonly cache_creation_input_tokens?: unknown;
}

/** Token counts of one response body so far. */
type Reported = { readonly [part in keyof TokenCount]?: number | undefined };

/** One block of the reply, with its ranges in the text and the reasoning. */
interface Block {
  readonly began: ContentBlock;
  readonly textFrom: number;
  readonly thoughtFrom: number;
  readonly callsBefore: number;
  textTo: number;
  thoughtTo: number;
  /** Arguments of a call, as far as received. */
  readonly json: ArgumentText;
  signature: string;
  isOpen: boolean;
}

const none: TokenCount = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

/** The HTTP status of each error outside a stream. */
const errorStatuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

/**
 * Parses streamed replies of Anthropic's Messages API. `by` marks the origin of thoughts. With `takesUnsigned`, thoughts without
 * a signature are sent back too, as other providers of the protocol produce them.
 */
export class AnthropicReader extends EventStream {
  readonly #by: string;
  readonly #takesUnsigned: boolean;
  readonly #blocks: Block[] = [];
  /** Blocks of this body by index. */
  #open = new Map<unknown, Block>();
  #calls = 0;
  #stop: string | null = null;
  #done = false;
  /** Tokens of earlier bodies; null if one of them reported none. */
  #before: TokenCount | null = none;
  #usage: Reported = {};

  constructor(events: ModelEvents, by: string, takesUnsigned = false) {
    super(events);
    this.#by = by;
    this.#takesUnsigned = takesUnsigned;
  }

  /** JSON of the reply's blocks so far, in the form that the provider accepts. */
  get contentJson(): string {
    return `[${this.#blocks.flatMap((block) => this.#blockJson(block)).join(",")}]`;
  }

  /** Prepares for the next body of a paused reply. */
  continueReply(): void {
    this.reopen();
    this.#open = new Map();
    this.#before = sum(this.#before, tokensOf(this.#usage));
    this.#usage = {};
    this.#stop = null;
    this.#done = false;
  }

  protected override take(payload: string): void {
    const event = parseEvent(payload) as MessageEvent | null;
    if (event === null) return;
    switch (event.type) {
      case "content_block_delta":
        this.#takeDelta(event, payload);
        break;
      case "content_block_start":
        this.#begin(event.index, event.content_block);
        break;
      case "content_block_stop":
        this.#close(this.#open.get(event.index));
        break;
      case "message_start":
        // `message_start` reports a preliminary output count.
        this.#count({ ...event.message?.usage, output_tokens: null });
        break;
      case "message_delta":
        this.#stopFor(event.delta?.stop_reason);
        this.#count(event.usage);
        break;
      case "message_stop":
        this.#finish();
        break;
      case "message":
        this.#takeWhole(event);
        break;
      default:
        // Some servers send an error without the surrounding type.
        if (event.error !== undefined && event.error !== null) throw failureOf(event.error);
    }
  }

  protected override reply(): ModelReply {
    if (!this.#done && this.#stop === null) throw new ChunkError("the stream ended before the answer did");
    if (this.#stop === null && this.#blocks.length === 0) throw new ChunkError("the answer is empty");
    this.#finish();
    const stop_reason = this.#stopReason();
    const thoughts = this.#thoughts();
    return {
      text: this.text,
      reasoning: this.reasoning,
      ...(thoughts.length === 0 ? {} : { thoughts }),
      // Ignore calls in a reply that the provider withdrew.
      tool_calls:
        stop_reason === "refusal" ? [] : this.#blocks.flatMap((block) => callOf(block, stop_reason === "max_tokens")),
      stop_reason,
      usage: sum(this.#before, tokensOf(this.#usage)),
    };
  }

  #takeDelta({ index, delta }: MessageEvent, payload: string): void {
    if (typeof delta !== "object" || delta === null) return;
    if (typeof delta.text === "string" && delta.text !== "") {
      this.say(delta.text);
      if (this.isLearning() && delta.type === "text_delta" && isPlain(delta))
        this.learn(payload, '"text"', delta.text, false);
    } else if (typeof delta.thinking === "string" && delta.thinking !== "") {
      this.think(delta.thinking);
      if (this.isLearning() && delta.type === "thinking_delta" && isPlain(delta))
        this.learn(payload, '"thinking"', delta.thinking, true);
    } else {
      const block = this.#open.get(index);
      const piece = delta.partial_json ?? delta.signature;
      if (block === undefined || typeof piece !== "string") return;
      if (piece === delta.partial_json) {
        block.json.add(piece);
        this.wroteCalls(piece.length);
      } else {
        block.signature += piece;
        this.keeps(piece.length);
      }
    }
  }

  #begin(index: unknown, began: ContentBlock | null | undefined): void {
    if (typeof began !== "object" || began === null) return;
    if (this.#blocks.length >= blocksMax) throw new MalformedAnswer("the answer has too many parts");
    const [textFrom, thoughtFrom] = [this.saidLength, this.thoughtLength];
    const block: Block = {
      began,
      textFrom,
      thoughtFrom,
      callsBefore: this.#calls,
      textTo: textFrom,
      thoughtTo: thoughtFrom,
      json: new ArgumentText(),
      signature: textOf(began.signature),
      isOpen: true,
    };
    this.#blocks.push(block);
    this.#open.set(index, block);
    this.keeps(block.signature.length + textOf(began.data).length + blockOverhead);
    if (began.type === "tool_use") {
      this.#calls++;
      this.wroteCalls(textOf(began.id).length + textOf(began.name).length);
    }
    if (began.type === "text") this.say(textOf(began.text));
    if (began.type === "thinking" && textOf(began.thinking) !== "") this.think(textOf(began.thinking));
    this.learnAnew();
  }

  #close(block: Block | undefined): void {
    if (block === undefined || !block.isOpen) return;
    block.isOpen = false;
    block.textTo = this.saidLength;
    block.thoughtTo = this.thoughtLength;
  }

  #stopFor(reason: unknown): void {
    if (typeof reason === "string" && reason !== "") this.#stop = reason;
  }

  #finish(): void {
    for (const block of this.#open.values()) this.#close(block);
    this.#done = true;
    this.over();
  }

  #takeWhole({ content, stop_reason, usage }: MessageEvent): void {
    for (const [index, block] of (Array.isArray(content) ? content : []).entries()) {
      this.#begin(index, block as ContentBlock);
      this.#close(this.#open.get(index));
    }
    this.#stopFor(stop_reason);
    this.#count(usage);
    this.#finish();
  }

  /** Merges the counts of a later event of the same body. A zero does not replace an earlier count. */
  #count(usage: MessageUsage | null | undefined): void {
    if (typeof usage !== "object" || usage === null) return;
    const { input, output, cacheRead, cacheWrite } = this.#usage;
    this.#usage = {
      input: later(usage.input_tokens, input),
      output: later(usage.output_tokens, output),
      cacheRead: later(usage.cache_read_input_tokens, cacheRead),
      cacheWrite: later(usage.cache_creation_input_tokens, cacheWrite),
    };
  }

  #stopReason(): StopReason {
    // The context window is full.
    if (this.#stop === "model_context_window_exceeded") return "max_tokens";
    return stopReasonOf(this.#stop, this.#calls > 0);
  }

  #thoughts(): SignedThought[] {
    return this.#blocks.flatMap((block): SignedThought[] => {
      const { began, textFrom, callsBefore } = block;
      const at = textFrom > 0 || callsBefore > 0 ? { at: { text: textFrom, calls: callsBefore } } : {};
      const by = this.#by;
      if (began.type === "redacted_thinking")
        return [{ type: "redacted_thinking", data: textOf(began.data), by, ...at }];
      if (began.type !== "thinking") return [];
      const signature = this.#signatureOf(block);
      const field = block.signature === "" && this.#takesUnsigned ? { field: "thinking" as const } : {};
      return [{ type: "thinking", thinking: this.#thoughtOf(block), signature, by, ...field, ...at }];
    });
  }

  #thoughtOf({ thoughtFrom, thoughtTo }: Block): string {
    return this.reasoning.slice(thoughtFrom, thoughtTo);
  }

  /** Returns no signature if invalid characters were replaced, because the text differs from the signed one. */
  #signatureOf(block: Block): string {
    return this.#thoughtOf(block).includes("\uFFFD") ? "" : block.signature;
  }

  #blockJson(block: Block): string[] {
    const { began, json } = block;
    if (began.type === "text") {
      const text = this.text.slice(block.textFrom, block.textTo);
      return text.trim() === "" ? [] : [JSON.stringify({ type: "text", text })];
    }
    if (began.type === "thinking") {
      const signature = this.#signatureOf(block);
      return signature === ""
        ? []
        : [JSON.stringify({ type: "thinking", thinking: this.#thoughtOf(block), signature })];
    }
    const words = json.whole();
    return [JSON.stringify(words === "" ? began : { ...began, input: parsed(words) })];
  }
}

/** Returns the call of a block. If the reply was cut off before the arguments, they are empty, not the initial empty object. */
function callOf({ began, json }: Block, isCut: boolean): RequestedCall[] {
  if (began.type !== "tool_use") return [];
  const begun = JSON.stringify(began.input ?? {});
  const words = json.whole() || (isCut && begun === "{}" ? "" : begun);
  return [{ id: soundText(textOf(began.id)), name: toolName(textOf(began.name)), arguments: words }];
}

/** True if a delta has only its type and one content. */
function isPlain(delta: BlockDelta): boolean {
  return Object.keys(delta).length === 2;
}

function failureOf(error: NonNullable<MessageEvent["error"]>): ChunkError {
  const type = typeof error === "object" ? textOf(error.type) : "";
  return new ChunkError(errorText(error), errorStatuses[type] ?? 0);
}

function later(value: unknown, before: number | undefined): number | undefined {
  return count(value) || (before ?? count(value) ?? undefined);
}

/** Returns null if input or output counts are missing, or all counts are zero. */
function tokensOf({ input, output, cacheRead = 0, cacheWrite = 0 }: Reported): TokenCount | null {
  if (input === undefined || output === undefined || input + output + cacheRead + cacheWrite === 0) return null;
  return { input, output, cacheRead, cacheWrite };
}

/** Returns null if either is null, because a partial sum would be misleading. */
function sum(a: TokenCount | null, b: TokenCount | null): TokenCount | null {
  if (a === null || b === null) return null;
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return {};
  }
}
