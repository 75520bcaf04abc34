import type { Env } from "../../bus/env.ts";

/**
 * The store's clock as a process knows it that has asked for it: the store has told its time somewhen between question and answer, so
 * that a moment is between two.
 */
export class StoreClock {
  readonly #env: Env;
  #told = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(env: Env) {
    this.#env = env;
  }

  /** Takes what the store has told, to a question that was asked at this time of the monotonic clock. */
  heard(told: number, askedAt: number): void {
    this.#told = told;
    this.#askedAt = askedAt;
    this.#answeredAt = this.#env.monotonic();
  }

  /** Milliseconds since the store was heard. */
  age(now: number): number {
    return now - this.#answeredAt;
  }

  /** The store's time is not before this, at a time of the monotonic clock. */
  earliest(now: number): number {
    return Math.floor(this.#told + now - this.#answeredAt);
  }

  /** The store's time is not after this, at a time of the monotonic clock. */
  latest(now: number): number {
    // What it has told was cut to whole milliseconds.
    return Math.ceil(this.#told + 1 + now - this.#askedAt);
  }
}
