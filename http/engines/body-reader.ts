import { SvcError } from "../../bus/errors.ts";
import type { SlotMember } from "../../bus/slot-map.ts";

/** Bytes that are kept before it is known what the route takes. No route gets more. */
const keptBytesMax = 16 * 1024 * 1024 + 16 * 1024;

/** Collects a body, also while nobody has asked for it yet. What is over the limit is counted and not kept. */
export class BodyReader implements SlotMember {
  slot = -1;
  /** For `SlowBodies`: when it was looked at last whether it comes too slowly, and how much had come by then. */
  watchedSince = 0;
  watchedBytes = 0;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #complete = false;
  #maxBytes = keptBytesMax;
  #waiting: { resolve(body: Buffer): void; reject(error: SvcError): void } | null = null;
  #failure: SvcError | null = null;

  /** Whether all of it has come. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Whether somebody has asked for it who has no answer yet. */
  get awaited(): boolean {
    return this.#waiting !== null;
  }

  /** How much has come so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Takes the next piece of the body, which is only lent for this call. */
  take(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#failure !== null) return;
    this.#bytes += chunk.byteLength;
    this.#complete = isLast;
    if (this.#bytes <= this.#maxBytes) this.#chunks.push(copied(chunk));
    this.#settle();
  }

  /** Nothing of it can be believed any more, or nobody waits for the rest: who asks, or has asked, is told why. */
  fail(failure: SvcError): void {
    if (this.#complete) return;
    this.#failure = failure;
    this.#settle();
  }

  /** The body. Refuses with payload_too_large as soon as there is more of it. */
  read(maxBytes: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#maxBytes = Math.min(maxBytes, keptBytesMax);
      this.#waiting = { resolve, reject };
      this.#settle();
    });
  }

  #settle(): void {
    const waiting = this.#waiting;
    if (waiting === null) return;
    if (this.#failure !== null) {
      this.#waiting = null;
      this.#chunks = [];
      waiting.reject(this.#failure);
    } else if (this.#bytes > this.#maxBytes) {
      this.#waiting = null;
      this.#chunks = [];
      waiting.reject(new SvcError("payload_too_large"));
    } else if (this.#complete) {
      this.#waiting = null;
      const [first] = this.#chunks;
      waiting.resolve(this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks));
      this.#chunks = [];
    }
  }
}

function copied(chunk: ArrayBuffer | Uint8Array): Buffer {
  return chunk instanceof Uint8Array ? Buffer.from(chunk) : Buffer.from(Buffer.from(chunk));
}
