import type { Env } from "../../bus/env.ts";

/** What is read and dropped after the answer; more is sent by who does not listen. */
export const lingerBytesMax = 16 * 1024 * 1024;
/** How long it is read, however little comes. */
export const lingerMsMax = 10_000;
/** How long nothing may come. */
export const lingerIdleMs = 2_000;

/**
 * What is still sent to a request that is answered. A connection that is closed with bytes unread is reset, and a client that sends
 * first and listens then would never see the answer: so they are read and dropped up to a bound. Closes once.
 */
export class Lingering {
  readonly #env: Env;
  readonly #startedAt: number;
  readonly #close: () => void;
  #heardAt: number;
  #bytes = 0;
  #over = false;

  constructor(env: Env, close: () => void) {
    this.#env = env;
    this.#close = close;
    this.#startedAt = env.monotonic();
    this.#heardAt = this.#startedAt;
    this.#watch();
  }

  /** Drops the next piece of the body. */
  take(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    this.#bytes += chunk.byteLength;
    this.#heardAt = this.#env.monotonic();
    if (isLast || this.#bytes > lingerBytesMax) this.#end();
  }

  /** The connection is gone. */
  stop(): void {
    this.#over = true;
  }

  #watch(): void {
    this.#env.timer(lingerIdleMs / 4, () => {
      if (this.#over) return;
      const now = this.#env.monotonic();
      if (now - this.#heardAt >= lingerIdleMs || now - this.#startedAt >= lingerMsMax) this.#end();
      else this.#watch();
    });
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#close();
  }
}
