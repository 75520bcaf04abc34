import type { Env } from "../../bus/env.ts";

/**
 * Estimates the store's clock from its replies. The store read its clock at some time between request and reply, so each
 * estimate is an interval.
 */
export class StoreClock {
  readonly #env: Env;
  #storeMs = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(env: Env) {
    this.#env = env;
  }

  /** Records a time from the store; `askedAt` is the monotonic time of the request. */
  heard(storeMs: number, askedAt: number): void {
    this.#storeMs = storeMs;
    this.#askedAt = askedAt;
    this.#answeredAt = this.#env.monotonic();
  }

  /** Returns the milliseconds since the last reply. */
  age(now: number): number {
    return now - this.#answeredAt;
  }

  /** Returns a lower bound of the store's time, at a monotonic time. */
  earliest(now: number): number {
    return Math.floor(this.#storeMs + now - this.#answeredAt);
  }

  /** Returns an upper bound of the store's time, at a monotonic time. */
  latest(now: number): number {
    // The store truncates to whole milliseconds.
    return Math.ceil(this.#storeMs + 1 + now - this.#askedAt);
  }
}
