import type { RateLease } from "../../bus/protocol/limiter.ts";

/** How much of what is left one lease may take: the part that a thread may hold without using it. */
const leaseShare = 1 / 64;

/** A token bucket: `limit` requests at once, refilled evenly over the window. */
export class TokenBucket {
  readonly #limit: number;
  /** What a request takes: so counted, every millisecond brings `limit`, and nothing is lost to fractions. */
  readonly #cost: number;
  #left: number;
  #at: number;

  constructor(limit: number, windowSeconds: number, now: number) {
    this.#limit = limit;
    this.#cost = windowSeconds * 1000;
    this.#left = limit * this.#cost;
    this.#at = now;
  }

  /** Takes tokens for requests to come; see `LimiterMessages.lease`. */
  lease(want: number, now: number): RateLease {
    this.#left = Math.min(this.#limit * this.#cost, this.#left + Math.max(0, now - this.#at) * this.#limit);
    this.#at = now;
    if (this.#left < this.#cost)
      return { granted: 0, retryAfterSeconds: Math.ceil((this.#cost - this.#left) / (this.#limit * 1000)) };
    const granted = Math.max(1, Math.min(want, Math.floor((this.#left / this.#cost) * leaseShare)));
    this.#left -= granted * this.#cost;
    return { granted, retryAfterSeconds: 0 };
  }
}
