import type { AnswerReader } from "./answer-reader.ts";
import { ChunkError, errorStatus, errorText, MalformedAnswer } from "./chunk.ts";
import { type ChunkUsage, count } from "./chunk-usage.ts";
import { dimensionsMax, type EmbeddingReply, type EmbeddingRequest, floatBytes } from "./embedder.ts";

/** A valid response needs at most a third of this. */
const documentBytesMax = 4 * 1024 * 1024;
/** base64 in the standard alphabet; the length is checked after decoding. */
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The expected response. All fields are unverified. */
interface EmbeddingDocument {
  readonly error?: unknown;
  readonly data?: unknown;
  readonly usage?: unknown;
}

/** Parses the response of an embedding call: decimal numbers or base64. */
export class EmbeddingReader implements AnswerReader<EmbeddingReply> {
  readonly text = "";
  readonly isStreamed = false;
  readonly isOver = false;
  readonly heardLength = 0;
  readonly documentBytesMax = documentBytesMax;
  readonly #request: EmbeddingRequest;

  constructor(request: EmbeddingRequest) {
    this.#request = request;
  }

  push(): never {
    throw new MalformedAnswer("vectors do not come as a stream");
  }

  end(): never {
    return this.push();
  }

  whole(body: string): EmbeddingReply {
    const { error, data, usage } = parse(body);
    if (error !== undefined && error !== null) throw new ChunkError(errorText(error), errorStatus(error));
    const { inputs } = this.#request;
    if (!Array.isArray(data) || data.length !== inputs.length)
      throw new MalformedAnswer(`the answer has not one vector for each of the ${inputs.length} inputs`);
    const vectors = this.#inOrder(data);
    const dimensions = vectors[0]?.length ?? 0;
    const all = new Uint8Array(inputs.length * dimensions * floatBytes);
    for (const [at, vector] of vectors.entries()) {
      if (vector.length !== dimensions) throw new MalformedAnswer("the vectors of the answer are not of one length");
      writeFloats(all, at * dimensions * floatBytes, vector);
    }
    const isBinary = typeof (data[0] as { embedding: unknown }).embedding === "string";
    return { vectors: all, dimensions, tokens: tokensOf(usage), isBinary };
  }

  /** Returns the vectors in the order of the inputs, by `index` or by order of arrival. */
  #inOrder(data: readonly unknown[]): Float32Array[] {
    const vectors: Float32Array[] = new Array(data.length);
    for (const [place, item] of data.entries()) {
      if (typeof item !== "object" || item === null) throw new MalformedAnswer("a vector of the answer is none");
      const { index = place, embedding } = item as { index?: unknown; embedding?: unknown };
      if (typeof index !== "number" || !Number.isInteger(index) || index < 0 || index >= data.length)
        throw new MalformedAnswer("a vector of the answer belongs to no input");
      if (vectors[index] !== undefined) throw new MalformedAnswer("two vectors of the answer belong to one input");
      vectors[index] = this.#vectorOf(embedding);
    }
    return vectors;
  }

  #vectorOf(embedding: unknown): Float32Array {
    const vector = typeof embedding === "string" ? fromBase64(embedding) : fromDigits(embedding);
    const { dimensions } = this.#request;
    if (vector.length === 0 || vector.length > dimensionsMax)
      throw new MalformedAnswer(`a vector of the answer has not 1 to ${dimensionsMax} dimensions`);
    if (dimensions !== null && vector.length !== dimensions)
      throw new MalformedAnswer(`a vector of the answer has ${vector.length} dimensions, not ${dimensions}`);
    // Also rejects numbers too large for 32 bits.
    if (!areFinite(vector)) throw new MalformedAnswer("a vector of the answer has what is no number in it");
    return vector;
  }
}

function parse(body: string): EmbeddingDocument {
  let document: unknown;
  try {
    document = JSON.parse(body);
  } catch {
    throw new MalformedAnswer("the answer is not JSON");
  }
  if (typeof document !== "object" || document === null) throw new MalformedAnswer("the answer is not an object");
  return document;
}

function fromBase64(text: string): Float32Array {
  // Reject text for more than the largest vector before decoding it.
  if (text.length > 2 * dimensionsMax * floatBytes || !base64.test(text))
    throw new MalformedAnswer("a vector of the answer is not base64");
  const bytes = Buffer.from(text, "base64");
  if (bytes.length % floatBytes !== 0) throw new MalformedAnswer("a vector of the answer is cut off");
  const vector = new Float32Array(bytes.length / floatBytes);
  for (let at = 0; at < vector.length; at++) vector[at] = bytes.readFloatLE(at * floatBytes);
  return vector;
}

function fromDigits(embedding: unknown): Float32Array {
  if (!Array.isArray(embedding)) throw new MalformedAnswer("a vector of the answer is no list of numbers");
  const vector = new Float32Array(embedding.length);
  for (let at = 0; at < vector.length; at++) {
    const value: unknown = embedding[at];
    if (typeof value !== "number") throw new MalformedAnswer("a vector of the answer is no list of numbers");
    vector[at] = value;
  }
  return vector;
}

function areFinite(vector: Float32Array): boolean {
  for (let at = 0; at < vector.length; at++) if (!Number.isFinite(vector[at])) return false;
  return true;
}

function writeFloats(into: Uint8Array, from: number, vector: Float32Array): void {
  const view = new DataView(into.buffer, into.byteOffset + from, vector.length * floatBytes);
  for (let at = 0; at < vector.length; at++) view.setFloat32(at * floatBytes, vector[at] as number, true);
}

/** Returns null if no plausible count was reported; zero is not plausible. */
function tokensOf(usage: unknown): number | null {
  if (typeof usage !== "object" || usage === null) return null;
  return count((usage as ChunkUsage).prompt_tokens) || null;
}
