import { createHash } from "node:crypto";
import type { VectorForm } from "../../../bus/protocol/embedder.ts";
import type { EmbeddingRoute } from "../../../manifests/registries.ts";

/** Max bytes of cached vectors in a thread of the process: about twenty thousand messages. */
const bytesMax = 32 * 1024 * 1024;
/** Estimated bytes of a cache entry besides its numbers. */
const vectorOverhead = 256;
/** Time without calls to a provider after a failure, so that turns do not wait for it. */
const restMs = 60_000;

/** A vector with numbers of 8 bits, a quarter of the original size. Quantization changes a cosine by less than 0.01. */
export interface Direction {
  readonly numbers: Int8Array;
  readonly length: number;
}

/** An LRU cache of vectors by tenant, route, model and text. */
export class VectorMemory {
  readonly #bytesMax: number;
  readonly #directions = new Map<string, Direction>();
  readonly #forms = new Map<string, VectorForm>();
  readonly #restUntil = new Map<string, number>();
  #bytes = 0;

  constructor(most: number = bytesMax) {
    this.#bytesMax = most;
  }

  /** Bytes of the cached vectors. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the cached vector of a text for one tenant and route. `digest` identifies the text: see `textDigest`. */
  find(tenantId: string, route: EmbeddingRoute, digest: string): Direction | null {
    const key = keyOf(tenantId, route, digest);
    const found = this.#directions.get(key);
    if (found === undefined) return null;
    this.#directions.delete(key);
    this.#directions.set(key, found);
    return found;
  }

  keep(tenantId: string, route: EmbeddingRoute, digest: string, direction: Direction): void {
    const key = keyOf(tenantId, route, digest);
    this.#forget(key);
    this.#directions.set(key, direction);
    this.#bytes += bytesOf(direction);
    for (const oldest of this.#directions.keys()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#forget(oldest);
    }
  }

  /** The known dimensions of a route's vectors; null before the first vector. */
  formOf({ id }: EmbeddingRoute): VectorForm | null {
    return this.#forms.get(id) ?? null;
  }

  learn({ id }: EmbeddingRoute, form: VectorForm): void {
    this.#forms.set(id, form);
  }

  /** True if the route pauses after a failure of its provider. `now` is of the monotonic clock. */
  isResting({ id }: EmbeddingRoute, now: number): boolean {
    return now < (this.#restUntil.get(id) ?? 0);
  }

  rest({ id }: EmbeddingRoute, now: number): void {
    this.#restUntil.set(id, now + restMs);
    // The provider may return vectors of another length after the failure.
    this.#forms.delete(id);
  }

  #forget(key: string): void {
    const found = this.#directions.get(key);
    if (found === undefined) return;
    this.#directions.delete(key);
    this.#bytes -= bytesOf(found);
  }
}

/** SHA-256 of a text, base64. */
export function textDigest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

/** Quantizes the vector at offset `from`, which consists of little-endian 32-bit floats. */
export function directionAt(bytes: Uint8Array, from: number, dimensions: number): Direction {
  const view = new DataView(bytes.buffer, bytes.byteOffset + from, dimensions * 4);
  let largest = 0;
  for (let at = 0; at < dimensions; at++) largest = Math.max(largest, Math.abs(view.getFloat32(at * 4, true)));
  const numbers = new Int8Array(dimensions);
  let squares = 0;
  for (let at = 0; at < dimensions && largest > 0; at++) {
    const number = Math.round((view.getFloat32(at * 4, true) / largest) * 127);
    numbers[at] = number;
    squares += number * number;
  }
  return { numbers, length: Math.sqrt(squares) };
}

/** Cosine similarity from -1 to 1. It is 0 for a zero vector and for vectors of different lengths. */
export function cosine(one: Direction, other: Direction): number {
  if (one.numbers.length !== other.numbers.length || one.length === 0 || other.length === 0) return 0;
  let product = 0;
  for (let at = 0; at < one.numbers.length; at++)
    product += (one.numbers[at] as number) * (other.numbers[at] as number);
  return product / (one.length * other.length);
}

function keyOf(tenantId: string, { id, model }: EmbeddingRoute, digest: string): string {
  return JSON.stringify([tenantId, id, model, digest]);
}

function bytesOf({ numbers }: Direction): number {
  return numbers.length + vectorOverhead;
}
