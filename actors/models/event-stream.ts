import { SoundPieces } from "../../bus/sound-text.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { isJson } from "./argument-text.ts";
import { MalformedAnswer } from "./chunk.ts";
import { LineBuffer } from "./line-buffer.ts";
import type { ModelEvents, ModelReply } from "./provider.ts";

// Parses a stream of server-sent events, one socket chunk at a time, and delivers all text of a chunk at once.
//
// Providers repeat the same 150 bytes of JSON around every token. The reader learns the text around the content of one event and
// compares later events with it. An event that differs only in plain content is not parsed. All other events are parsed by the
// protocol's reader.

/** Max bytes of one event; more are an attack or a defect. */
const eventMax = 16 * 1024 * 1024;
/** Max characters of one reply; more are an attack or a defect. */
const answerMax = 16 * 1024 * 1024;
/** Characters counted for each data line in addition to its text. */
const lineOverhead = 64;
const blankLine: Buffer = Buffer.from("\n\n");
/** Events with a changing field cannot be learned; the next attempt is after this many. */
const learnEvery = 64;
const missesMax = 4;
/** Characters that have a meaning inside a JSON string. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that JSON forbids there
const needsParsing = /["\\\u0000-\u001f]/;
/** A closing of brackets only may contain any number of blanks. */
const bracketsOnly = /^"[\]} ]*\n\n$/;

/** The text around the content of one event, and between the contents of two. */
interface Frame {
  readonly opening: string;
  readonly closing: string;
  readonly between: string;
  /** The closing without blanks, for providers that pad events with a varying number of them; otherwise null. */
  readonly brackets: string | null;
  /** True if the content is a thought. */
  readonly isThought: boolean;
}

/** Parses one streamed reply, a chunk of bytes at a time, and delivers its events in order. */
export abstract class EventStream implements AnswerReader<ModelReply> {
  readonly isStreamed = true;
  readonly documentBytesMax = eventMax;
  readonly #events: ModelEvents;
  readonly #lines = new LineBuffer(eventMax);
  /** The preceding `event:` line with its end, if the event is not complete; otherwise empty. */
  #name = "";
  /** Data lines of an incomplete event, and their length. */
  #data: string[] = [];
  #dataLength = 0;
  /** Content read from this chunk and not delivered yet; the thought comes before the text. */
  #thought = "";
  #said = "";
  #called = 0;
  /** Numbers of events that carried this content. */
  #thoughtPieces = 0;
  #saidPieces = 0;
  #calledPieces = 0;
  readonly #soundThought = new SoundPieces();
  readonly #soundSaid = new SoundPieces();
  #frame: Frame | null = null;
  #untilLearning = 0;
  /** Events in a row that began like the frame but differed later. */
  #misses = 0;
  #text = "";
  #reasoning = "";
  #callsLength = 0;
  #keptLength = 0;
  #isOver = false;

  constructor(events: ModelEvents) {
    this.#events = events;
  }

  /** All text delivered so far. */
  get text(): string {
    return this.#text;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Parses one event. Throws ChunkError. */
  protected abstract take(payload: string): void;
  /** Returns the reply at the end of the body. Throws ChunkError if it was cut off. */
  protected abstract reply(): ModelReply;

  /** Parses bytes of the socket. Throws ChunkError; content before the error is still delivered. */
  push(chunk: Buffer): void {
    const lines = this.#lines.push(chunk);
    if (lines === "") return;
    try {
      this.#readLines(lines);
    } finally {
      this.#flush();
    }
  }

  /** Handles the end of the body. Throws ChunkError if it was cut off. */
  end(): ModelReply {
    // The last event need not end with a blank line.
    this.push(blankLine);
    this.#flush(true);
    return this.reply();
  }

  /** Parses a body that is one JSON document. Throws ChunkError. */
  whole(body: string): ModelReply {
    if (!/^\s*[[{]/.test(body) && !isJson(body)) throw notJson();
    this.push(Buffer.from(`data: ${body.replaceAll(/[\r\n]/g, " ")}\n\n`));
    return this.end();
  }

  /** Length of the text so far, including undelivered text. */
  protected get saidLength(): number {
    return this.#text.length + this.#soundSaid.held + this.#said.length;
  }

  /** Characters so far of text, thoughts, calls and vendor fields. */
  get heardLength(): number {
    return this.saidLength + this.thoughtLength + this.#callsLength + this.#called + this.#keptLength;
  }

  /** Length of the thoughts so far. */
  protected get thoughtLength(): number {
    return this.#reasoning.length + this.#soundThought.held + this.#thought.length;
  }

  /** All thoughts so far, without an incomplete character at the end. Valid only after everything read is delivered. */
  protected get reasoning(): string {
    return this.#reasoning;
  }

  /** Ignores the rest of the stream. */
  protected over(): void {
    this.#isOver = true;
    this.#frame = null;
  }

  /** Prepares for another body that continues the same reply. */
  protected reopen(): void {
    this.#isOver = false;
    this.#data = [];
    this.#dataLength = 0;
    this.#name = "";
    this.#lines.clear();
  }

  protected say(text: string): void {
    this.#say(text, text === "" ? 0 : 1);
  }

  #say(text: string, pieces: number): void {
    this.#said += text;
    this.#saidPieces += pieces;
  }

  /** Counts a piece of tool calls. */
  protected wroteCalls(characters: number): void {
    this.#called += characters;
    this.#calledPieces++;
    this.#bound();
  }

  /** Counts characters held in memory that are not part of the model's text. */
  protected keeps(characters: number): void {
    this.#keptLength += characters;
    this.#bound();
  }

  protected think(text: string): void {
    this.#think(text, 1);
  }

  #think(text: string, pieces: number): void {
    if (pieces > 0 && this.#said !== "") this.#flush();
    this.#thought += text;
    this.#thoughtPieces += pieces;
  }

  /** True if the frame should be learned from the next content. */
  protected isLearning(): boolean {
    return this.#untilLearning-- <= 0;
  }

  /** Learns the frame again from the next content, because later events have another one. */
  protected learnAnew(): void {
    this.#untilLearning = 0;
  }

  /**
   * Learns the text around the content. The caller ensures that the event says nothing else. The key must occur once, without
   * escapes, and be followed by the parsed content. Then an event with the same surrounding text and other plain content differs
   * in that content only. `key` includes its quotes.
   */
  protected learn(payload: string, key: string, content: string, isThought: boolean): void {
    this.#untilLearning = learnEvery;
    const behind = payload.indexOf(key) + key.length;
    const from = payload.indexOf('"', behind) + 1;
    const to = from + content.length;
    if (payload.includes("\\") || payload.indexOf(key, behind) >= 0) return;
    if (payload.slice(behind, from - 1).trim() !== ":" || payload.slice(from, to) !== content || payload[to] !== '"')
      return;
    const opening = `${this.#name}data: ${payload.slice(0, from)}`;
    const closing = `${payload.slice(to)}\n\n`;
    const brackets = bracketsOnly.test(closing) ? closing.replaceAll(" ", "") : null;
    this.#frame = { opening, closing, between: closing + opening, brackets, isThought };
    this.#misses = 0;
  }

  /** Parses text of complete lines. */
  #readLines(text: string): void {
    // A byte order mark may start the stream.
    let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
    while (at < text.length) {
      const opening = this.#frame?.opening ?? "";
      if (opening !== "" && this.#data.length === 0 && text.slice(at, at + opening.length) === opening) {
        const next = this.#learnedEvents(text, at);
        if (next > at) {
          at = next;
          this.#name = "";
          continue;
        }
      }
      const end = text.indexOf("\n", at);
      if (end === at) {
        if (this.#data.length > 0) this.#endOfEvent();
        this.#name = "";
      } else if (text.startsWith("data:", at)) {
        const payload = text.slice(text.charCodeAt(at + 5) === 0x20 ? at + 6 : at + 5, end);
        // Fast path: the event is one line, followed by a blank line.
        if (this.#data.length === 0 && text.charCodeAt(end + 1) === 0x0a) this.#event(payload);
        else this.#hold(payload);
      } else this.#name = text.startsWith("event:", at) ? text.slice(at, end + 1) : "";
      at = end + 1;
    }
  }

  /**
   * Handles events from `at` on that match the learned frame, and returns where they end. Slices are compared, which is several
   * times faster than startsWith at an offset.
   */
  #learnedEvents(text: string, at: number): number {
    const { opening, closing, between, brackets, isThought } = this.#frame as Frame;
    let from = at + opening.length;
    let end = -1;
    let contents = "";
    let pieces = 0;
    for (;;) {
      const quote = text.indexOf('"', from);
      const content = text.slice(from, quote);
      if (needsParsing.test(content)) break;
      const isLast = text.slice(quote, quote + between.length) !== between;
      if (isLast) {
        end = quote + closing.length;
        if (text.slice(quote, end) !== closing) {
          end = brackets === null ? -1 : paddedEnd(text, quote, brackets);
          if (end < 0) break;
        }
      }
      contents += content;
      if (content !== "") pieces++;
      if (isLast) break;
      from = quote + between.length;
    }
    if (isThought) this.#think(contents, pieces);
    else this.#say(contents, pieces);
    const next = end < 0 ? from - opening.length : end;
    this.#misses = next === at ? this.#misses + 1 : 0;
    if (this.#misses === missesMax) this.#frame = null;
    return next;
  }

  #hold(payload: string): void {
    this.#dataLength += payload.length + lineOverhead;
    if (this.#dataLength > eventMax) throw new MalformedAnswer("an event of the stream is too long");
    this.#data.push(payload);
  }

  #endOfEvent(): void {
    const payload = this.#data.join("\n");
    this.#data = [];
    this.#dataLength = 0;
    this.#event(payload);
  }

  #event(payload: string): void {
    if (payload !== "" && !this.#isOver) this.take(payload);
  }

  /** Delivers the content read so far. */
  #flush(isLast = false): void {
    // Text after a thought ends it: an incomplete character at the thought's end must not be delivered later.
    const thought = this.#soundThought.take(this.#thought, isLast || this.#said !== "");
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

  /** Rejects a reply that is too long. */
  #bound(): void {
    const length = this.#text.length + this.#reasoning.length + this.#callsLength + this.#called + this.#keptLength;
    if (length > answerMax) throw new MalformedAnswer("the answer is too long");
  }
}

/** Returns the end of an event whose content ends at `quote`, if only brackets and blanks follow; otherwise -1. */
function paddedEnd(text: string, quote: number, brackets: string): number {
  const end = text.indexOf("\n\n", quote) + 2;
  // More padding than any provider uses.
  if (end < 2 || end - quote > 256) return -1;
  return text.slice(quote, end).replaceAll(" ", "") === brackets ? end : -1;
}

function notJson(): MalformedAnswer {
  return new MalformedAnswer("a line of the stream is not JSON");
}

/**
 * Returns the object of an event; Google sends errors as a list of one. Returns null for `null`, a word or a number, which
 * gateways send to keep connections open (https://github.com/anomalyco/opencode/issues/50314). Throws MalformedAnswer for an
 * incomplete object.
 */
export function parseEvent(payload: string): object | null {
  let event: unknown;
  try {
    event = JSON.parse(payload);
  } catch {
    if (!/^\s*[[{]/.test(payload)) return null;
    throw notJson();
  }
  const item: unknown = Array.isArray(event) && event.length === 1 ? event[0] : event;
  return typeof item === "object" ? item : null;
}
