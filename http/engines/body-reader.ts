import { SvcError } from "../../bus/errors.ts";
import type { SlotMember } from "../../bus/slot-map.ts";

/** Max bytes kept before the limit of the route is known. No route accepts more. */
const keptBytesMax = 16 * 1024 * 1024 + 16 * 1024;

/** Collects a body, also before the handler asks for it. Bytes over the limit are counted but not kept. */
export class BodyReader implements SlotMember {
  slot = -1;
  /** For `SlowBodies`: the time of the last check for slowness, and the bytes received by then. */
  watchedSince = 0;
  watchedBytes = 0;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #complete = false;
  #maxBytes = keptBytesMax;
  #waiting: { resolve(body: Buffer): void; reject(error: SvcError): void } | null = null;
  #failure: SvcError | null = null;

  /** True if the whole body was received. */
  get complete(): boolean {
    return this.#complete;
  }

  /** True while a handler waits for the body. */
  get awaited(): boolean {
    return this.#waiting !== null;
  }

  /** Bytes received so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Takes the next piece of the body. The memory of the piece is valid only during the call. */
  take(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    if (this.#failure !== null) return;
    this.#bytes += chunk.byteLength;
    this.#complete = isLast;
    if (this.#bytes <= this.#maxBytes) this.#chunks.push(copied(chunk));
    this.#settle();
  }

  /** Fails the body, for example if it is malformed or too slow. A pending or later `read` rejects with this error. */
  fail(failure: SvcError): void {
    if (this.#complete) return;
    this.#failure = failure;
    this.#settle();
  }

  /** Returns the body. Refuses with payload_too_large as soon as it exceeds the limit. */
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
