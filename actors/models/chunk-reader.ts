import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import { CallDrafts } from "./call-drafts.ts";
import {
  type Choice,
  type Chunk,
  ChunkError,
  type ContentPart,
  errorStatus,
  errorText,
  stopReasonOf,
  tokenCount,
} from "./chunk.ts";
import type { ModelEvents, ModelReply } from "./provider.ts";
import { SoundPieces } from "./sound-text.ts";

// Reads the streamed body of a chat completion, a socket chunk at a time, and passes on all text of a chunk at once.
//
// Providers repeat the same 150 bytes of JSON around every token. The reader learns what surrounds the content of one event
// and compares the next ones with it: an event that differs in its plain content only need not be parsed. Everything else
// goes through JSON.parse.

/** An event that does not end within this is an attack or a defect. Bytes. */
const eventMax = 16 * 1024 * 1024;
/** So is an answer that is longer. Characters. */
const answerMax = 16 * 1024 * 1024;
/** Counted for a data line beside its text. */
const lineOverhead = 64;
const none: Buffer = Buffer.alloc(0);
const carryBytesMin = 512;
const carryBytesKept = 64 * 1024;
/** Fields that change with every event cannot be learned around; it is tried again after this many. */
const learnEvery = 64;
const missesMax = 4;
const contentKey = '"content"';
/** What does not stand for itself inside a JSON string. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that JSON forbids there
const needsParsing = /["\\\u0000-\u001f]/;

/** What stands around the content of one event, and between the contents of two. */
interface Frame {
  readonly opening: string;
  readonly closing: string;
  readonly between: string;
}

/**
 * Reads one streamed answer, a chunk of bytes at a time, and tells its events in the order in which they stand there.
 */
export class ChunkReader {
  readonly #events: ModelEvents;
  /** What came after the last line break: the first bytes of a buffer that grows. */
  #carry: Buffer = none;
  #carryBytes = 0;
  /** The last byte was a carriage return: a line feed now belongs to it. */
  #afterReturn = false;
  /** Data lines of an event that has not ended, and their length. */
  #data: string[] = [];
  #dataLength = 0;
  /** What was read from this chunk and not passed on: first the thought, then what was said. */
  #thought = "";
  #said = "";
  #called = 0;
  /** The events that this came in. */
  #thoughtPieces = 0;
  #saidPieces = 0;
  #calledPieces = 0;
  readonly #soundThought = new SoundPieces();
  readonly #soundSaid = new SoundPieces();
  #frame: Frame | null = null;
  #untilLearning = 0;
  /** Events in a row that began like the frame and then were something else. */
  #misses = 0;
  #text = "";
  #reasoning = "";
  readonly #calls = new CallDrafts();
  #callsLength = 0;
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

  /** Takes what the socket gave. Throws ChunkError; what was said before is passed on all the same. */
  push(chunk: Buffer): void {
    const bytes = this.#afterReturn || chunk.includes(0x0d) ? this.#plainLineEnds(chunk) : chunk;
    const end = bytes.lastIndexOf(0x0a) + 1;
    if (end === 0) {
      this.#keep(bytes);
      return;
    }
    const lines = this.#withCarry(bytes, end);
    if (end < bytes.length) this.#keep(bytes.subarray(end));
    try {
      this.#readLines(lines);
    } finally {
      this.#flush();
    }
  }

  /** The body is over. Throws ChunkError when it was cut off. */
  end(): ModelReply {
    // The last event need not be closed by a blank line.
    this.push(Buffer.from("\n\n"));
    this.#flush(true);
    if (!this.#done && this.#finish === null) throw new ChunkError("the stream ended before the answer did");
    return {
      text: this.#text,
      reasoning: this.#reasoning,
      tool_calls: this.#calls.finish(),
      stop_reason: stopReasonOf(this.#finish, this.#calls.size > 0),
      usage: this.#usage,
    };
  }

  /** The chunk with a line feed at the end of every line. */
  #plainLineEnds(chunk: Buffer): Buffer {
    const from = this.#afterReturn && chunk[0] === 0x0a ? 1 : 0;
    if (chunk.length > 0) this.#afterReturn = chunk.at(-1) === 0x0d;
    // Latin-1 keeps every byte as it is.
    return Buffer.from(chunk.toString("latin1", from).replace(/\r\n?/g, "\n"), "latin1");
  }

  /** However small the pieces of a line are, each byte is copied a few times only. */
  #keep(rest: Buffer): void {
    const bytes = this.#carryBytes + rest.length;
    if (bytes > eventMax) throw new ChunkError("a line of the stream is too long");
    if (bytes > this.#carry.length) {
      const grown = Buffer.allocUnsafe(Math.max(carryBytesMin, 2 * bytes));
      this.#carry.copy(grown, 0, 0, this.#carryBytes);
      this.#carry = grown;
    }
    rest.copy(this.#carry, this.#carryBytes);
    this.#carryBytes = bytes;
  }

  /** The text up to `end` of `bytes`, behind what was kept. */
  #withCarry(bytes: Buffer, end: number): string {
    if (this.#carryBytes === 0) return bytes.toString("utf8", 0, end);
    const lines = Buffer.concat([this.#carry.subarray(0, this.#carryBytes), bytes.subarray(0, end)]).toString("utf8");
    this.#carryBytes = 0;
    if (this.#carry.length > carryBytesKept) this.#carry = none;
    return lines;
  }

  /** `text` holds whole lines. */
  #readLines(text: string): void {
    // A byte order mark may open the stream.
    let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
    while (at < text.length) {
      const opening = this.#frame?.opening ?? "";
      if (opening !== "" && this.#data.length === 0 && text.slice(at, at + opening.length) === opening) {
        const next = this.#learnedEvents(text, at);
        if (next > at) {
          at = next;
          continue;
        }
      }
      const end = text.indexOf("\n", at);
      if (end === at) {
        if (this.#data.length > 0) this.#endOfEvent();
      } else if (text.startsWith("data:", at)) {
        const payload = text.slice(text.charCodeAt(at + 5) === 0x20 ? at + 6 : at + 5, end);
        // Nearly always an event is one line: a blank line follows, and nothing was held back.
        if (this.#data.length === 0 && text.charCodeAt(end + 1) === 0x0a) this.#event(payload);
        else this.#hold(payload);
      }
      at = end + 1;
    }
  }

  /**
   * Takes the events from `at` on that are the learned frame around plain content, and answers where they end. Parts of the text
   * are cut out and compared: that is several times faster than asking what it has at a place.
   */
  #learnedEvents(text: string, at: number): number {
    const { opening, closing, between } = this.#frame as Frame;
    let from = at + opening.length;
    for (;;) {
      const quote = text.indexOf('"', from);
      const content = text.slice(from, quote);
      if (needsParsing.test(content)) break;
      if (text.slice(quote, quote + between.length) === between) {
        this.#say(content);
        from = quote + between.length;
      } else {
        if (text.slice(quote, quote + closing.length) !== closing) break;
        this.#say(content);
        this.#misses = 0;
        return quote + closing.length;
      }
    }
    const next = from - opening.length;
    this.#misses = next === at ? this.#misses + 1 : 0;
    if (this.#misses === missesMax) this.#frame = null;
    return next;
  }

  #hold(payload: string): void {
    this.#dataLength += payload.length + lineOverhead;
    if (this.#dataLength > eventMax) throw new ChunkError("an event of the stream is too long");
    this.#data.push(payload);
  }

  #endOfEvent(): void {
    const payload = this.#data.join("\n");
    this.#data = [];
    this.#dataLength = 0;
    this.#event(payload);
  }

  #event(payload: string): void {
    if (payload === "" || this.#done) return;
    if (payload.charCodeAt(0) === 0x5b && payload.trimEnd() === "[DONE]") {
      this.#done = true;
      this.#frame = null;
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
    if (chunk.error !== undefined && chunk.error !== null)
      throw new ChunkError(errorText(chunk.error), errorStatus(chunk.error));
    if (typeof chunk.usage === "object" && chunk.usage !== null) this.#usage = tokenCount(chunk.usage);
    const choice = Array.isArray(chunk.choices) ? (chunk.choices[0] as Choice | null | undefined) : undefined;
    if (typeof choice !== "object" || choice === null) return;
    if (typeof choice.finish_reason === "string" && choice.finish_reason !== "") this.#finish = choice.finish_reason;
    const delta = choice.delta ?? choice.message;
    if (typeof delta !== "object" || delta === null) return;
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (typeof reasoning === "string" && reasoning !== "") this.#think(reasoning);
    if (typeof delta.content === "string" && delta.content !== "") {
      this.#say(delta.content);
      if (this.#untilLearning-- <= 0 && !chunk.usage) this.#learn(choice, delta.content, payload);
    } else if (Array.isArray(delta.content)) {
      for (const part of delta.content) this.#takePart(part);
    }
    if (Array.isArray(delta.tool_calls)) {
      for (const part of delta.tool_calls) this.#called += this.#calls.take(part);
      this.#calledPieces++;
      if (this.#callsLength + this.#called > answerMax) throw new ChunkError("the answer is too long");
    }
  }

  #takePart(part: ContentPart | null): void {
    if (typeof part?.text === "string" && part.text !== "") this.#say(part.text);
    if (typeof part?.thinking === "string" && part.thinking !== "") this.#think(part.thinking);
    if (Array.isArray(part?.thinking)) {
      for (const thought of part.thinking as readonly (ContentPart | null)[])
        if (typeof thought?.text === "string" && thought.text !== "") this.#think(thought.text);
    }
  }

  #say(text: string): void {
    this.#said += text;
    if (text !== "") this.#saidPieces++;
  }

  #think(text: string): void {
    if (this.#said !== "") this.#flush();
    this.#thought += text;
    this.#thoughtPieces++;
  }

  /** Passes on what was read. */
  #flush(isLast = false): void {
    const thought = this.#soundThought.take(this.#thought, isLast);
    const said = this.#soundSaid.take(this.#said, isLast);
    this.#thought = "";
    this.#said = "";
    if (thought !== "") {
      const pieces = this.#thoughtPieces;
      this.#thoughtPieces = 0;
      this.#reasoning += thought;
      this.#events.reasoning(thought, pieces);
    }
    if (said !== "") {
      const pieces = this.#saidPieces;
      this.#saidPieces = 0;
      this.#text += said;
      this.#events.text(said, pieces);
    }
    if (this.#calledPieces > 0) {
      const [characters, pieces] = [this.#called, this.#calledPieces];
      this.#called = 0;
      this.#calledPieces = 0;
      this.#callsLength += characters;
      this.#events.calls(characters, pieces);
    }
    this.#bound();
  }

  #bound(): void {
    if (this.#text.length + this.#reasoning.length + this.#callsLength > answerMax)
      throw new ChunkError("the answer is too long");
  }

  /**
   * Remembers what surrounds the content, if nothing else in the event says anything. With the key "content" there once, no
   * escapes, and the text behind it equal to the parsed content, an event that reads alike around other plain content means
   * the same but for the content.
   */
  #learn(choice: Choice, content: string, payload: string): void {
    this.#untilLearning = learnEvery;
    const delta = choice.delta;
    if (!delta || choice.finish_reason || delta.tool_calls?.length || delta.reasoning_content || delta.reasoning)
      return;
    const key = payload.indexOf(contentKey) + contentKey.length;
    const from = payload.indexOf('"', key) + 1;
    const to = from + content.length;
    if (payload.includes("\\") || payload.indexOf(contentKey, key) >= 0) return;
    if (payload.slice(key, from - 1).trim() !== ":" || payload.slice(from, to) !== content || payload[to] !== '"')
      return;
    const opening = `data: ${payload.slice(0, from)}`;
    const closing = `${payload.slice(to)}\n\n`;
    this.#frame = { opening, closing, between: closing + opening };
    this.#misses = 0;
  }
}

/** The reply in a body that was not streamed, by a reader that has read nothing. Throws ChunkError. */
export function readWhole(body: string, reader: ChunkReader): ModelReply {
  reader.push(Buffer.from(`data: ${body.replaceAll(/[\r\n]/g, " ")}\n\n`));
  return reader.end();
}
