import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createUnzip, createZstdDecompress } from "node:zlib";
import { EgressError } from "./failure.ts";

/**
 * Returns the body without its content coding, in chunks of a few kilobytes, so that a reader can stop a decompression bomb. Throws
 * an EgressError for a coding that is not known.
 */
export function decoded(body: Readable, coding: string): Readable {
  const decoder = decoderOf(coding.trim().toLowerCase());
  // The reader of the result gets the error of either stream.
  return decoder === null ? body : pipeline(body, decoder, () => {});
}

function decoderOf(coding: string) {
  switch (coding) {
    case "":
    case "identity":
      return null;
    case "gzip":
    case "x-gzip":
    case "deflate":
      return createUnzip();
    case "br":
      return createBrotliDecompress();
    case "zstd":
      return createZstdDecompress();
    default:
      throw new EgressError("malformed", "the content coding of the answer is not supported");
  }
}

/** A body of at most a number of bytes. */
export interface CollectedBody {
  readonly bytes: Buffer;
  /** True if there was more; the connection has been closed. */
  readonly isCut: boolean;
}

/** Reads a stream up to `bytesMax` bytes, and destroys it if there are more. */
export async function collect(body: Readable, bytesMax: number): Promise<CollectedBody> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body as AsyncIterable<Buffer>) {
    parts.push(part);
    length += part.length;
    // Leaving the loop destroys the stream.
    if (length > bytesMax) break;
  }
  const isCut = length > bytesMax;
  return { bytes: Buffer.concat(parts, Math.min(length, bytesMax)), isCut };
}

/** True for a stream of server-sent events. */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  return /^text\/event-stream\b/i.test(headers["content-type"] ?? "");
}
