import { isAscii } from "node:buffer";
import { SoundPieces } from "../../bus/sound-text.ts";
import type { AnswerReader } from "./answer-reader.ts";
import { isJson } from "./argument-text.ts";
import { MalformedAnswer } from "./chunk.ts";
import type { ModelEvents, ModelReply } from "./provider.ts";

// Reads a streamed body of server-sent events, a socket chunk at a time, and passes on all text of a chunk at once.
//
// Providers repeat the same 150 bytes of JSON around every token. The reader learns what surrounds the content of one event
// and compares the next ones with it: an event that differs in its plain content only need not be parsed. Everything else
// goes through the reader of the protocol, which parses it.

/** An event that does not end within this is an attack or a defect. Bytes. */
const eventMax = 16 * 1024 * 1024;
/** So is an answer that is longer. Characters. */
const answerMax = 16 * 1024 * 1024;
/** Counted for a data line beside its text. */
const lineOverhead = 64;
const none: Buffer = Buffer.alloc(0);
const blankLine: Buffer = Buffer.from("\n\n");
const carryBytesMin = 512;
const carryBytesKept = 64 * 1024;
/** Fields that change with every event cannot be learned around; it is tried again after this many. */
const learnEvery = 64;
const missesMax = 4;
/** What does not stand for itself inside a JSON string. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that JSON forbids there
const needsParsing = /["\\\u0000-\u001f]/;
/** A closing that is brackets alone may be written with any blanks among them. */
const bracketsOnly = /^"[\]} ]*\n\n$/;

/** What stands around the content of one event, and between the contents of two. */
interface Frame {
  readonly opening: string;
  readonly closing: string;
  readonly between: string;
  /** The closing without blanks, where providers that pad their events put different numbers of them; else null. */
  readonly brackets: string | null;
  /** Whether the content is a thought. */
  readonly isThought: boolean;
}

/** Reads one streamed answer, a chunk of bytes at a time, and tells its events in the order in which they stand there. */
export abstract class EventStream implements AnswerReader<ModelReply> {
  readonly isStreamed = true;
  readonly documentBytesMax = eventMax;
  readonly #events: ModelEvents;
  /** What came after the last line break: the first bytes of a buffer that grows. */
  #carry: Buffer = none;
  #carryBytes = 0;
  /** The last byte was a carriage return: a line feed now belongs to it. */
  #afterReturn = false;
  /** The line before, with its end, when it names the event that has not ended; else "". */
  #name = "";
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
  #callsLength = 0;
  #keptLength = 0;
  #isOver = false;

  constructor(events: ModelEvents) {
    this.#events = events;
  }

  /** All text so far. */
  get text(): string {
    return this.#text;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Reads one event. Throws ChunkError. */
  protected abstract take(payload: string): void;
  /** The reply when the body is over. Throws ChunkError when it was cut off. */
  protected abstract reply(): ModelReply;

  /** Takes what the socket gave. Throws ChunkError; what was said before is passed on all the same. */
  push(chunk: Buffer): void {
    const bytes = this.#afterReturn || chunk.includes(0x0d) ? this.#plainLineEnds(chunk) : chunk;
    // Most chunks are whole lines.
    const end = bytes[bytes.length - 1] === 0x0a ? bytes.length : bytes.lastIndexOf(0x0a) + 1;
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
    this.push(blankLine);
    this.#flush(true);
    return this.reply();
  }

  /** Takes a body that is one JSON document, and was not streamed. Throws ChunkError. */
  whole(body: string): ModelReply {
    if (!/^\s*[[{]/.test(body) && !isJson(body)) throw notJson();
    this.push(Buffer.from(`data: ${body.replaceAll(/[\r\n]/g, " ")}\n\n`));
    return this.end();
  }

  /** What was said so far, by its length: also what was not passed on yet. */
  protected get saidLength(): number {
    return this.#text.length + this.#soundSaid.held + this.#said.length;
  }

  /** Characters of the answer so far: text, thoughts, calls and vendor fields. */
  get heardLength(): number {
    return this.saidLength + this.thoughtLength + this.#callsLength + this.#called + this.#keptLength;
  }

  /** What was thought so far, by its length. */
  protected get thoughtLength(): number {
    return this.#reasoning.length + this.#soundThought.held + this.#thought.length;
  }

  /** All that was thought so far, but for half a character at its end. Only when all that was read is passed on. */
  protected get reasoning(): string {
    return this.#reasoning;
  }

  /** Nothing that follows counts. */
  protected over(): void {
    this.#isOver = true;
    this.#frame = null;
  }

  /** Another body follows, which goes on with the same answer. */
  protected reopen(): void {
    this.#isOver = false;
    this.#data = [];
    this.#dataLength = 0;
    this.#name = "";
    this.#carryBytes = 0;
    this.#afterReturn = false;
  }

  protected say(text: string): void {
    this.#say(text, text === "" ? 0 : 1);
  }

  #say(text: string, pieces: number): void {
    this.#said += text;
    this.#saidPieces += pieces;
  }

  /** A piece of tool calls has so many characters. */
  protected wroteCalls(characters: number): void {
    this.#called += characters;
    this.#calledPieces++;
    this.#bound();
  }

  /** So many characters are kept of what is no part of what the model says. */
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

  /** Whether it is time to learn what surrounds a content. */
  protected isLearning(): boolean {
    return this.#untilLearning-- <= 0;
  }

  /** What follows looks different: the next content is learned from at once. */
  protected learnAnew(): void {
    this.#untilLearning = 0;
  }

  /**
   * Remembers what surrounds the content, if nothing else in the event says anything, which the caller has made sure of. With the
   * key there once, no escapes, and the text behind it equal to the parsed content, an event that reads alike around other plain
   * content means the same but for the content. `key` is written with its quotes.
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
    if (bytes > eventMax) throw new MalformedAnswer("a line of the stream is too long");
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
    if (this.#carryBytes === 0) return textOf(end === bytes.length ? bytes : bytes.subarray(0, end));
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
        // Nearly always an event is one line: a blank line follows, and nothing was held back.
        if (this.#data.length === 0 && text.charCodeAt(end + 1) === 0x0a) this.#event(payload);
        else this.#hold(payload);
      } else this.#name = text.startsWith("event:", at) ? text.slice(at, end + 1) : "";
      at = end + 1;
    }
  }

  /**
   * Takes the events from `at` on that are the learned frame around plain content, and answers where they end. Parts of the text
   * are cut out and compared: that is several times faster than asking what it has at a place.
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

  /** Passes on what was read. */
  #flush(isLast = false): void {
    // The thought is over where words stand behind it: half a character at its end is not told behind them.
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

  /** Refuses an answer that does not end. */
  #bound(): void {
    const length = this.#text.length + this.#reasoning.length + this.#callsLength + this.#called + this.#keptLength;
    if (length > answerMax) throw new MalformedAnswer("the answer is too long");
  }
}

/** UTF-8 as text; of ASCII alone it is made several times faster as Latin-1. */
function textOf(bytes: Buffer): string {
  return isAscii(bytes) ? bytes.toString("latin1") : bytes.toString("utf8");
}

/** Where an event ends whose content ends at `quote`, when brackets and blanks alone follow; -1 when something else does. */
function paddedEnd(text: string, quote: number, brackets: string): number {
  const end = text.indexOf("\n\n", quote) + 2;
  // Nobody pads with more.
  if (end < 2 || end - quote > 256) return -1;
  return text.slice(quote, end).replaceAll(" ", "") === brackets ? end : -1;
}

function notJson(): MalformedAnswer {
  return new MalformedAnswer("a line of the stream is not JSON");
}

/**
 * The object of an event, also alone in a list, as Google sends errors. Null for `null`, a word or a number, which say nothing: gateways
 * keep connections open with them (https://github.com/anomalyco/opencode/issues/50314). Throws MalformedAnswer for half an object.
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
