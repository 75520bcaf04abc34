import type { ModelEvents, ModelReply, RequestedCall, StopReason, TokenCount } from "./provider.ts";

// Reads the streamed body of a chat completion, a socket chunk at a time, and passes on all text of a chunk at once.
//
// Providers repeat the same 150 bytes of JSON around every token. The reader learns what surrounds the content of one event
// and compares the next ones with it: an event that differs in its plain content only need not be parsed. Everything else
// goes through JSON.parse.

/** A line that does not end within this is an attack or a defect. */
const lineBytesMax = 16 * 1024 * 1024;
/** Fields that change with every event cannot be learned around; it is tried again after this many. */
const learnEvery = 64;
const contentKey = '"content"';

/** What the provider's `finish_reason` means; its own names are kept where they are ours too. */
const stopReasons: Readonly<Record<string, StopReason>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  function_call: "tool_use",
  content_filter: "refusal",
  end_turn: "end_turn",
  tool_use: "tool_use",
  max_tokens: "max_tokens",
  stop_sequence: "stop_sequence",
  pause_turn: "pause_turn",
  refusal: "refusal",
};

/** The body broke a rule of its protocol, or carried an error of the provider. */
export class ChunkError extends Error {}

interface CallDraft {
  id: string;
  name: string;
  arguments: string;
}

export class ChunkReader {
  readonly #events: ModelEvents;
  #carry: Buffer | null = null;
  #data: string[] = [];
  #batch = "";
  /** The learned frame: what stands before the content, after it, and between the contents of two events. */
  #opening = "";
  #closing = "";
  #between = "";
  #untilLearning = 0;
  #text = "";
  #reasoning = "";
  readonly #calls = new Map<number, CallDraft>();
  #finish: string | null = null;
  #usage: TokenCount | null = null;
  #done = false;

  constructor(events: ModelEvents) {
    this.#events = events;
  }

  /** All text so far. */
  get text(): string {
    return this.#text;
  }

  /** Takes what the socket gave. Throws ChunkError. */
  push(chunk: Buffer): void {
    const end = chunk.lastIndexOf(0x0a) + 1;
    if (end === 0) {
      this.#keep(chunk);
      return;
    }
    const lines =
      this.#carry === null
        ? chunk.toString("utf8", 0, end)
        : Buffer.concat([this.#carry, chunk.subarray(0, end)]).toString("utf8");
    this.#carry = null;
    if (end < chunk.length) this.#keep(chunk.subarray(end));
    this.#readLines(lines);
    if (this.#batch !== "") {
      const delta = this.#batch;
      this.#batch = "";
      this.#text += delta;
      this.#events.text(delta);
    }
  }

  /** The body is over. Throws ChunkError when it was cut off. */
  end(): ModelReply {
    if (this.#carry !== null) this.push(Buffer.from("\n"));
    if (this.#data.length > 0) this.push(Buffer.from("\n"));
    if (!this.#done && this.#finish === null) throw new ChunkError("the stream ended before the answer did");
    return {
      text: this.#text,
      reasoning: this.#reasoning,
      tool_calls: this.#requestedCalls(),
      stop_reason: stopReasonOf(this.#finish, this.#calls.size > 0),
      usage: this.#usage,
    };
  }

  #keep(rest: Buffer): void {
    const carry = this.#carry === null ? Buffer.from(rest) : Buffer.concat([this.#carry, rest]);
    if (carry.length > lineBytesMax) throw new ChunkError("a line of the stream is too long");
    this.#carry = carry;
  }

  /** `text` holds whole lines. */
  #readLines(text: string): void {
    let at = 0;
    while (at < text.length) {
      if (this.#opening !== "" && !this.#done && this.#data.length === 0 && text.startsWith(this.#opening, at)) {
        const next = this.#learnedEvents(text, at);
        if (next > at) {
          at = next;
          continue;
        }
      }
      const newline = text.indexOf("\n", at);
      const end = newline > at && text.charCodeAt(newline - 1) === 13 ? newline - 1 : newline;
      if (end === at) {
        if (this.#data.length > 0) this.#endOfEvent();
      } else if (text.startsWith("data:", at)) {
        const payload = text.slice(text.charCodeAt(at + 5) === 32 ? at + 6 : at + 5, end);
        // Nearly always an event is one line: a blank line follows, and nothing was held back.
        if (this.#data.length === 0 && isBlankLine(text, newline + 1)) this.#event(payload);
        else this.#data.push(payload);
      }
      at = newline + 1;
    }
  }

  /**
   * Takes the events from `at` on that are the learned frame around plain content, and answers where they end; `at` when the
   * first of them is something else.
   */
  #learnedEvents(text: string, at: number): number {
    const from = at + this.#opening.length;
    const contents = text.slice(from).split(this.#between);
    const last = contents.pop() as string;
    const lastEnd = last.indexOf(this.#closing);
    const whole = contents.join("");
    // The last one may be followed by an event of another form, which then is in `last` too.
    const end = lastEnd < 0 ? -1 : last.indexOf("\n");
    const plain =
      end >= 0 &&
      lastEnd + this.#closing.length === end + 1 &&
      last.charCodeAt(end + 1) === 10 &&
      isPlain(last.slice(0, lastEnd));
    if (!isPlain(whole) || (!plain && contents.length === 0)) return at;
    this.#batch += whole;
    let next = from + whole.length + contents.length * this.#between.length;
    if (plain) {
      this.#batch += last.slice(0, lastEnd);
      next += end + 1;
    } else {
      // Leave the last one, with its opening, to the common path.
      next -= this.#opening.length;
    }
    return next;
  }

  #endOfEvent(): void {
    const payload = this.#data.join("\n");
    this.#data = [];
    this.#event(payload);
  }

  #event(payload: string): void {
    if (payload === "" || this.#done) return;
    if (payload === "[DONE]") {
      this.#done = true;
      return;
    }
    let chunk: Chunk;
    try {
      chunk = JSON.parse(payload) as Chunk;
    } catch {
      throw new ChunkError("a line of the stream is not JSON");
    }
    if (chunk === null || typeof chunk !== "object") throw new ChunkError("a line of the stream is not an object");
    this.#take(chunk, payload);
  }

  #take(chunk: Chunk, payload: string): void {
    if (chunk.error !== undefined && chunk.error !== null) throw new ChunkError(errorText(chunk.error));
    if (chunk.usage) this.#usage = tokenCount(chunk.usage);
    const choice = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
    if (!choice || typeof choice !== "object") return;
    if (typeof choice.finish_reason === "string") this.#finish = choice.finish_reason;
    const delta = choice.delta ?? choice.message;
    if (!delta || typeof delta !== "object") return;
    if (typeof delta.content === "string" && delta.content !== "") {
      this.#batch += delta.content;
      if (this.#untilLearning-- <= 0 && !chunk.usage) this.#learn(choice, delta.content, payload);
    }
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === "string" && reasoning !== "") {
      this.#reasoning += reasoning;
      this.#events.reasoning(reasoning);
    }
    if (Array.isArray(delta.tool_calls)) for (const part of delta.tool_calls) this.#takeCall(part);
  }

  /** A call comes in fragments: its id and name once, its arguments a piece at a time. */
  #takeCall(part: ToolCallPart): void {
    if (!part || typeof part !== "object") return;
    const index = typeof part.index === "number" ? part.index : this.#calls.size;
    let draft = this.#calls.get(index);
    if (!draft) {
      draft = { id: "", name: "", arguments: "" };
      this.#calls.set(index, draft);
    }
    if (typeof part.id === "string" && part.id !== "") draft.id = part.id;
    if (typeof part.function?.name === "string") draft.name += part.function.name;
    if (typeof part.function?.arguments === "string") draft.arguments += part.function.arguments;
    if (draft.arguments.length > lineBytesMax) throw new ChunkError("the arguments of a tool call are too long");
  }

  /**
   * Remembers what surrounds the content, if nothing else in the event says anything. With the key "content" there once, no
   * escapes, and the text behind it equal to the parsed content, an event that reads alike around other plain content means
   * the same but for the content.
   */
  #learn(choice: Choice, content: string, payload: string): void {
    this.#untilLearning = learnEvery;
    const delta = choice.delta;
    if (!delta || choice.finish_reason || delta.tool_calls || delta.reasoning_content || delta.reasoning) return;
    const at = payload.indexOf(contentKey);
    const from = at + contentKey.length + 2;
    const to = from + content.length;
    if (payload.includes("\\") || payload.indexOf(contentKey, from) >= 0) return;
    if (payload.slice(at + contentKey.length, from) !== ':"' || payload.slice(from, to) !== content || payload[to] !== '"') return;
    this.#opening = `data: ${payload.slice(0, from)}`;
    this.#closing = `${payload.slice(to)}\n`;
    this.#between = `${this.#closing}\n${this.#opening}`;
  }

  #requestedCalls(): RequestedCall[] {
    return [...this.#calls.entries()].sort(([a], [b]) => a - b).map(([, draft]) => draft);
  }
}

/** The reply in a body that was not streamed. Throws ChunkError. */
export function readWhole(body: string, events: ModelEvents): ModelReply {
  const reader = new ChunkReader(events);
  reader.push(Buffer.from(`data: ${body.replaceAll(/[\r\n]/g, " ")}\n\n`));
  return reader.end();
}

function isBlankLine(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 10 || (code === 13 && text.charCodeAt(at + 1) === 10);
}

/** Whether text stands for itself inside a JSON string, and ends no line. */
function isPlain(text: string): boolean {
  return !text.includes('"') && !text.includes("\\") && !text.includes("\n");
}

function stopReasonOf(finish: string | null, hasCalls: boolean): StopReason {
  const reason = finish === null ? "unknown" : (stopReasons[finish] ?? "unknown");
  // Some providers say "stop" beside tool calls.
  return hasCalls && reason === "end_turn" ? "tool_use" : reason;
}

/** An error's words as the provider put them, wherever it did. */
export function errorText(error: unknown): string {
  if (typeof error === "string") return error;
  if (error !== null && typeof error === "object" && "message" in error && typeof error.message === "string") return error.message;
  return "the provider reported an error";
}

function tokenCount(usage: ChunkUsage): TokenCount {
  const cacheRead = count(usage.prompt_tokens_details?.cached_tokens ?? usage.cache_read_input_tokens);
  const cacheWrite = count(usage.prompt_tokens_details?.cache_creation_tokens ?? usage.cache_creation_input_tokens);
  return {
    input: Math.max(0, count(usage.prompt_tokens) - cacheRead - cacheWrite),
    output: count(usage.completion_tokens),
    cacheRead,
    cacheWrite,
  };
}

/** Numbers of a provider are not to be trusted either. */
function count(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

interface Choice {
  delta?: Delta;
  message?: Delta;
  finish_reason?: string | null;
}

interface Chunk {
  choices?: Choice[];
  usage?: ChunkUsage | null;
  error?: unknown;
}

interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: ToolCallPart[];
}

interface ToolCallPart {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

interface ChunkUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number; cache_creation_tokens?: number };
  cache_read_input_tokens?: number;
  cache_creation_input_tokens?: number;
}
