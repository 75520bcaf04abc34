import { isAscii } from "node:buffer";
import { MalformedAnswer } from "./chunk.ts";

const none: Buffer = Buffer.alloc(0);
const carryBytesMin = 512;
const carryBytesKept = 64 * 1024;

/** Joins the chunks of a body into complete lines, each with one line feed at its end. */
export class LineBuffer {
  readonly #lineBytesMax: number;
  /** The bytes after the last line break; the buffer grows and is only partly used. */
  #carry: Buffer = none;
  #carryBytes = 0;
  /** True if the last byte was a carriage return, so that a following line feed belongs to it. */
  #afterReturn = false;

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax;
  }

  /** Returns the lines that are complete with this chunk; empty for none. Throws MalformedAnswer if a line is too long. */
  push(chunk: Buffer): string {
    const bytes = this.#afterReturn || chunk.includes(0x0d) ? this.#plainLineEnds(chunk) : chunk;
    // Most chunks are complete lines.
    const end = bytes[bytes.length - 1] === 0x0a ? bytes.length : bytes.lastIndexOf(0x0a) + 1;
    if (end === 0) {
      this.#keep(bytes);
      return "";
    }
    const lines = this.#withCarry(bytes, end);
    if (end < bytes.length) this.#keep(bytes.subarray(end));
    return lines;
  }

  /** Drops an incomplete line. */
  clear(): void {
    this.#carryBytes = 0;
    this.#afterReturn = false;
  }

  /** Returns the chunk with each line end replaced by a line feed. */
  #plainLineEnds(chunk: Buffer): Buffer {
    const from = this.#afterReturn && chunk[0] === 0x0a ? 1 : 0;
    if (chunk.length > 0) this.#afterReturn = chunk.at(-1) === 0x0d;
    // Latin-1 preserves every byte.
    return Buffer.from(chunk.toString("latin1", from).replace(/\r\n?/g, "\n"), "latin1");
  }

  /** The buffer doubles, so that each byte is copied only a few times, however small the pieces. */
  #keep(rest: Buffer): void {
    const bytes = this.#carryBytes + rest.length;
    if (bytes > this.#lineBytesMax) throw new MalformedAnswer("a line of the stream is too long");
    if (bytes > this.#carry.length) {
      const grown = Buffer.allocUnsafe(Math.max(carryBytesMin, 2 * bytes));
      this.#carry.copy(grown, 0, 0, this.#carryBytes);
      this.#carry = grown;
    }
    rest.copy(this.#carry, this.#carryBytes);
    this.#carryBytes = bytes;
  }

  /** Returns the text up to `end` of `bytes`, after the carried bytes. */
  #withCarry(bytes: Buffer, end: number): string {
    if (this.#carryBytes === 0) return textOf(end === bytes.length ? bytes : bytes.subarray(0, end));
    const lines = Buffer.concat([this.#carry.subarray(0, this.#carryBytes), bytes.subarray(0, end)]).toString("utf8");
    this.#carryBytes = 0;
    if (this.#carry.length > carryBytesKept) this.#carry = none;
    return lines;
  }
}

/** Decodes UTF-8; pure ASCII is decoded several times faster as Latin-1. */
function textOf(bytes: Buffer): string {
  return isAscii(bytes) ? bytes.toString("latin1") : bytes.toString("utf8");
}
