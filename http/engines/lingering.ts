import type { Env } from "../../bus/env.ts";

/** Max bytes read and dropped after the answer; a client that sends more does not read its answer. */
export const lingerBytesMax = 16 * 1024 * 1024;
/** Max total time for dropping the rest of a body. */
export const lingerMsMax = 10_000;
/** Max time without a byte. */
export const lingerIdleMs = 2_000;

/**
 * Drops the rest of a request that is already answered. Closing a connection with unread bytes resets it, and a client that sends before it
 * reads would never see the answer. Calls `close` once, at the end of the body or at a bound.
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

  take(chunk: ArrayBuffer | Uint8Array, isLast: boolean): void {
    this.#bytes += chunk.byteLength;
    this.#heardAt = this.#env.monotonic();
    if (isLast || this.#bytes > lingerBytesMax) this.#end();
  }

  /** Called when the connection is gone. */
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
