import type { FileHandle } from "node:fs/promises";
import { checkSignal, ToolRefusal } from "./refusal.ts";

/** Max bytes that a model reads or writes with one call. */
export const textBytesMax = 512_000;

const chunkBytes = 64 * 1024;
const lineFeed = 10;
/** Max bytes that `readLines` skips to find its first line. */
const scanBytesMax = 64_000_000;

/** Reads a file; null if it has more than `max` bytes, whatever its stats say. */
export async function readAtMost(handle: FileHandle, max: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let total = 0;
  while (true) {
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, total);
    if (bytesRead === 0) return Buffer.concat(chunks, total);
    total += bytesRead;
    if (total > max) return null;
    chunks.push(buffer.subarray(0, bytesRead));
  }
}

/** A range of lines. */
export interface Lines {
  readonly bytes: Buffer;
  /** False if `bytesMax` cut them off. */
  readonly complete: boolean;
}

/** Reads lines `offset` to `offset + limit - 1`, counted from 1, with their line ends; at most `bytesMax` bytes. */
export async function readLines(
  handle: FileHandle,
  offset: number,
  limit: number,
  bytesMax: number,
  signal: AbortSignal,
): Promise<Lines> {
  const wanted: Buffer[] = [];
  let wantedBytes = 0;
  let lineNumber = 1;
  let atLineStart = true;
  let position = 0;
  while (lineNumber < offset + limit && wantedBytes <= bytesMax) {
    checkSignal(signal);
    if (lineNumber < offset && position >= scanBytesMax)
      throw new ToolRefusal("invalid_arguments", `offset is beyond the first ${scanBytesMax} bytes of the file`);
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
    if (bytesRead === 0) break;
    position += bytesRead;
    const chunk = buffer.subarray(0, bytesRead);
    let from = lineNumber < offset ? -1 : 0;
    let to = chunk.length;
    for (let at = 0; at < chunk.length; at++) {
      if (chunk[at] !== lineFeed) continue;
      lineNumber++;
      if (lineNumber === offset) from = at + 1;
      if (lineNumber === offset + limit) {
        to = at + 1;
        break;
      }
    }
    atLineStart = chunk[chunk.length - 1] === lineFeed;
    if (from === -1) continue;
    wanted.push(chunk.subarray(from, to));
    wantedBytes += to - from;
  }
  const lineCount = atLineStart ? lineNumber - 1 : lineNumber;
  if (wantedBytes === 0 && offset > 1 && lineCount < offset)
    throw new ToolRefusal(
      "invalid_arguments",
      `offset ${offset} is past the end: the file has ${lineCount} ${lineCount === 1 ? "line" : "lines"}`,
    );
  const bytes = Buffer.concat(wanted, wantedBytes);
  return { bytes: bytes.subarray(0, bytesMax), complete: wantedBytes <= bytesMax };
}

/**
 * Decodes bytes for the model; invalid UTF-8 becomes U+FFFD. `cut` drops an incomplete character at the end. Refuses binary
 * content.
 */
export function decodeText(bytes: Uint8Array, label: string, cut: boolean): string {
  if (bytes.includes(0)) throw new ToolRefusal("invalid_arguments", `${label}: is not a text file`);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: cut });
}
