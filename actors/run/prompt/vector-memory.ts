import { createHash } from "node:crypto";
import type { VectorForm } from "../../../bus/protocol/embedder.ts";
import type { EmbeddingRoute } from "../../../manifests/registries.ts";

/** Bytes of vectors that a thread keeps: those of some twenty thousand messages. */
const bytesMax = 32 * 1024 * 1024;
/** Of a vector beside its numbers. */
const vectorOverhead = 256;
/** How long a provider that has failed is left alone: meanwhile no turn waits for it. */
const restMs = 60_000;

/** A direction, in a quarter of the room: what two vectors have in common changes by less than a hundredth. */
export interface Direction {
  readonly numbers: Int8Array;
  readonly length: number;
}

/** The directions of texts, by what made them and for whom; those that were not used for longest are forgotten first. */
export class VectorMemory {
  readonly #bytesMax: number;
  readonly #directions = new Map<string, Direction>();
  readonly #forms = new Map<string, VectorForm>();
  readonly #restUntil = new Map<string, number>();
  #bytes = 0;

  constructor(most: number = bytesMax) {
    this.#bytesMax = most;
  }

  /** Bytes of what is kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What one tenant knows of the texts that a route has seen. `digest` names a text: see `textDigest`. */
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

  /** What is known of a route's vectors; null before the first of them. */
  formOf({ id }: EmbeddingRoute): VectorForm | null {
    return this.#forms.get(id) ?? null;
  }

  learn({ id }: EmbeddingRoute, form: VectorForm): void {
    this.#forms.set(id, form);
  }

  /** Whether the route is left alone: its provider has failed. `now` is of a clock that never goes back. */
  isResting({ id }: EmbeddingRoute, now: number): boolean {
    return now < (this.#restUntil.get(id) ?? 0);
  }

  rest({ id }: EmbeddingRoute, now: number): void {
    this.#restUntil.set(id, now + restMs);
    // Its vectors may be longer than they were.
    this.#forms.delete(id);
  }

  #forget(key: string): void {
    const found = this.#directions.get(key);
    if (found === undefined) return;
    this.#directions.delete(key);
    this.#bytes -= bytesOf(found);
  }
}

/** A short name of a text. */
export function textDigest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

/** The direction of the vector that stands at `from` of some bytes: 32-bit floats, little-endian. */
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

/** How alike two directions are, from -1 to 1; 0 where they cannot be compared. */
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
