import { malformed, ResponseHead } from "./response-head.ts";

// Parses the HTTP/1.1 and 1.0 responses of one connection incrementally (RFC 9112). Rejects ambiguous framing: otherwise a
// server could decide where the next response appears to begin.

/** Max bytes of a head or trailer, and of a chunk's size line. */
const headBytesMax = 16 * 1024;
const chunkLineBytesMax = 4 * 1024;
/** One hexadecimal digit is four bits: 16 TiB. */
const chunkDigitsMax = 11;

/** Receives the parts of one response. */
export interface ResponseSink {
  head(head: ResponseHead): void;
  /** The bytes are valid during the call only. */
  data(bytes: Buffer): void;
}

type State = "head" | "bytes" | "until_end" | "chunk_line" | "chunk" | "chunk_end" | "trailer" | "over";

const lineEnd = Buffer.from("\r\n");
const blankLine = Buffer.from("\r\n\r\n");
const none: Buffer = Buffer.alloc(0);
const carriageReturn = 0x0d;
const lineFeed = 0x0a;

/** Parses one response after another. */
export class ResponseReader {
  #state: State = "over";
  #sink: ResponseSink | null = null;
  #keepsConnection = false;
  #keepsForMs: number | null = null;
  /** Remaining bytes of the body or of the chunk. */
  #bytesLeft = 0;
  #trailerBytes = 0;
  /** The incomplete start of a head or of a line. */
  #carry: Buffer = none;

  /** True if the response has been read completely. */
  get isOver(): boolean {
    return this.#state === "over";
  }

  /** True while the head is incomplete. */
  get isBeforeHead(): boolean {
    return this.#state === "head";
  }

  /** True if the connection may serve another request after this response. */
  get keepsConnection(): boolean {
    return this.#keepsConnection;
  }

  /** How long the server keeps the idle connection; null if it does not say. */
  get keepsForMs(): number | null {
    return this.#keepsForMs;
  }

  /** Prepares for the next response. */
  begin(sink: ResponseSink): void {
    this.#sink = sink;
    this.#state = "head";
    this.#carry = none;
  }

  /** Parses up to the end of the response and returns the number of bytes consumed. Throws an EgressError. */
  push(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length && this.#state !== "over") at = this.#step(bytes, at);
    return at;
  }

  /** Handles the end of the connection. Returns false if the response is incomplete. */
  end(): boolean {
    if (this.#state === "until_end") this.#state = "over";
    return this.#state === "over";
  }

  /** Parses one element at `at` and returns the offset after it. */
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
    // Other 1xx responses precede the final one. The egress never asks for an upgrade, so 101 is an error.
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

  /** Reads the size of a chunk and skips the chunk extensions. */
  #readChunkLine(bytes: Buffer, at: number): number {
    // Fast path: the line is complete and has no extension.
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

  /** Reads the line end after a chunk, which may arrive in two reads. */
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

  /** Skips the trailer fields after the last chunk, up to the blank line. */
  #readTrailer(bytes: Buffer, at: number): number {
    const found = this.#until(lineEnd, bytes, at, headBytesMax);
    if (found === null) return bytes.length;
    this.#trailerBytes += found.text.length;
    if (this.#trailerBytes > headBytesMax) throw malformed("too much follows its last chunk");
    if (found.text === "") this.#state = "over";
    return found.end;
  }

  /**
   * Returns the Latin-1 text before `mark` and the offset after the mark. Returns null, and buffers the bytes, if the mark has
   * not arrived.
   */
  #until(mark: Buffer, bytes: Buffer, at: number, bytesMax: number): { text: string; end: number } | null {
    if (this.#carry.length === 0) {
      const found = bytes.indexOf(mark, at);
      if ((found < 0 ? bytes.length : found) - at > bytesMax) throw malformed("a line of it is too long");
      if (found >= 0) return { text: bytes.toString("latin1", at, found), end: found + mark.length };
      this.#carry = Buffer.from(bytes.subarray(at));
      return null;
    }
    const before = this.#carry.length;
    // Append at most `bytesMax` bytes: more would be copied again for each small read.
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

/** Returns the value of a hexadecimal digit; -1 for any other byte. */
function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
