import { malformed, ResponseHead } from "./response-head.ts";

// Reads the answers of one connection, HTTP/1.1 and 1.0 (RFC 9112), from the bytes as they come. It takes nothing that could be read
// in two ways: whoever answers then would say where the next answer begins.

/** Bytes of a head, of the line of a chunk, and of what follows the last chunk. */
const headBytesMax = 16 * 1024;
const chunkLineBytesMax = 4 * 1024;
/** A byte for each hexadecimal digit: 16 TiB. */
const chunkDigitsMax = 11;

/** What is told of one answer. */
export interface ResponseSink {
  head(head: ResponseHead): void;
  /** Valid during the call only. */
  data(bytes: Buffer): void;
}

type State = "head" | "bytes" | "until_end" | "chunk_line" | "chunk" | "chunk_end" | "trailer" | "over";

const lineEnd = Buffer.from("\r\n");
const blankLine = Buffer.from("\r\n\r\n");
const none: Buffer = Buffer.alloc(0);
const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/** Reads one answer after another. */
export class ResponseReader {
  #state: State = "over";
  #sink: ResponseSink | null = null;
  #keepsConnection = false;
  #keepsForMs: number | null = null;
  /** Of the body, or of the chunk. */
  #bytesLeft = 0;
  #trailerBytes = 0;
  /** The beginning of a head or of a line. */
  #carry: Buffer = none;

  /** Whether the answer has been read to its end. */
  get isOver(): boolean {
    return this.#state === "over";
  }

  /** Whether the head of the answer is still to come. */
  get isBeforeHead(): boolean {
    return this.#state === "head";
  }

  /** Whether the connection may serve another request once the answer is over. */
  get keepsConnection(): boolean {
    return this.#keepsConnection;
  }

  /** For how long the other side says that it does; null when it does not. */
  get keepsForMs(): number | null {
    return this.#keepsForMs;
  }

  /** Another answer is expected. */
  begin(sink: ResponseSink): void {
    this.#sink = sink;
    this.#state = "head";
    this.#carry = none;
  }

  /** Reads up to the end of the answer, and says how many bytes that were. Throws an EgressError. */
  push(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length && this.#state !== "over") at = this.#step(bytes, at);
    return at;
  }

  /** The connection has ended. False when the answer has not. */
  end(): boolean {
    if (this.#state === "until_end") this.#state = "over";
    return this.#state === "over";
  }

  /** Reads something from `at` on, and answers where it ended. */
  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case "head":
        return this.#readHead(bytes, at);
      case "bytes":
        return this.#readBody(bytes, at, "over");
      case "chunk":
        return this.#readBody(bytes, at, "chunk_end");
      case "until_end":
        this.#sink?.data(at === 0 ? bytes : bytes.subarray(at));
        return bytes.length;
      case "chunk_line":
        return this.#readChunkLine(bytes, at);
      case "chunk_end":
        return this.#readChunkEnd(bytes, at);
      case "trailer":
        return this.#readTrailer(bytes, at);
      default:
        return at;
    }
  }

  #readHead(bytes: Buffer, at: number): number {
    const found = this.#until(blankLine, bytes, at, headBytesMax);
    if (found === null) return bytes.length;
    const head = ResponseHead.parse(found.text);
    // Others come before the answer, and nobody asks for an upgrade.
    if (head.status === 101) throw malformed("it speaks another protocol from here on");
    if (head.status < 200) return found.end;
    const framing = head.framing();
    this.#keepsConnection = head.keepsConnection && framing !== "until_end";
    this.#keepsForMs = head.keepsForMs;
    if (framing === "chunks") this.#state = "chunk_line";
    else if (framing === "until_end") this.#state = "until_end";
    else {
      this.#bytesLeft = framing;
      this.#state = framing === 0 ? "over" : "bytes";
    }
    this.#sink?.head(head);
    return found.end;
  }

  #readBody(bytes: Buffer, at: number, next: State): number {
    const end = Math.min(bytes.length, at + this.#bytesLeft);
    this.#bytesLeft -= end - at;
    if (this.#bytesLeft === 0) this.#state = next;
    this.#sink?.data(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    return end;
  }

  /** The size of a chunk, and what else is said of it, which nobody needs. */
  #readChunkLine(bytes: Buffer, at: number): number {
    // Nearly always it is there at once, and nothing else is said.
    if (this.#carry.length === 0) {
      let size = 0;
      let end = at;
      for (; end - at < chunkDigitsMax; end++) {
        const digit = hexDigit(bytes[end]);
        if (digit < 0) break;
        size = size * 16 + digit;
      }
      if (end > at && bytes[end] === carriageReturn && bytes[end + 1] === lineFeed) {
        this.#beginChunk(size);
        return end + 2;
      }
    }
    const found = this.#until(lineEnd, bytes, at, chunkLineBytesMax);
    if (found === null) return bytes.length;
    const [, digits = "", rest = ""] = /^([0-9A-Fa-f]+)[\t ]*(.*)$/.exec(found.text) ?? [];
    if (digits === "" || digits.length > chunkDigitsMax || (rest !== "" && rest[0] !== ";"))
      throw malformed("a chunk has no size");
    this.#beginChunk(Number.parseInt(digits, 16));
    return found.end;
  }

  #beginChunk(size: number): void {
    this.#bytesLeft = size;
    this.#trailerBytes = 0;
    this.#state = size === 0 ? "trailer" : "chunk";
  }

  /** The line end behind a chunk, which may come in two pieces. */
  #readChunkEnd(bytes: Buffer, at: number): number {
    const isHalf = this.#carry.length > 0;
    if (bytes[at] !== (isHalf ? lineFeed : carriageReturn)) throw malformed("a chunk is longer than its size");
    if (isHalf || bytes[at + 1] === lineFeed) {
      this.#carry = none;
      this.#state = "chunk_line";
      return at + (isHalf ? 1 : 2);
    }
    if (at + 1 < bytes.length) throw malformed("a chunk is longer than its size");
    this.#carry = lineEnd.subarray(0, 1);
    return at + 1;
  }

  /** What follows the last chunk: fields that nobody needs, and a blank line. */
  #readTrailer(bytes: Buffer, at: number): number {
    const found = this.#until(lineEnd, bytes, at, headBytesMax);
    if (found === null) return bytes.length;
    this.#trailerBytes += found.text.length;
    if (this.#trailerBytes > headBytesMax) throw malformed("too much follows its last chunk");
    if (found.text === "") this.#state = "over";
    return found.end;
  }

  /** What stands before `mark`, in Latin-1, and where the mark ends in `bytes`; null when it has not come, and what has is kept. */
  #until(mark: Buffer, bytes: Buffer, at: number, bytesMax: number): { text: string; end: number } | null {
    if (this.#carry.length === 0) {
      const found = bytes.indexOf(mark, at);
      if ((found < 0 ? bytes.length : found) - at > bytesMax) throw malformed("a line of it is too long");
      if (found >= 0) return { text: bytes.toString("latin1", at, found), end: found + mark.length };
      this.#carry = Buffer.from(bytes.subarray(at));
      return null;
    }
    const before = this.#carry.length;
    // No more than could be it, or many pieces would be copied for each of them.
    const joined = Buffer.concat([this.#carry, bytes.subarray(at, at + bytesMax + mark.length)]);
    const found = joined.indexOf(mark, Math.max(0, before - mark.length + 1));
    if ((found < 0 ? joined.length : found) > bytesMax) throw malformed("a line of it is too long");
    if (found < 0) {
      this.#carry = joined;
      return null;
    }
    this.#carry = none;
    return { text: joined.toString("latin1", 0, found), end: at + found + mark.length - before };
  }
}

/** The value of a hexadecimal digit; -1 for another byte. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
