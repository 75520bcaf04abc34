import type { RateLease } from "../../bus/protocol/limiter.ts";

/** How much of what is left one lease may take: the part that a thread may hold without using it. */
const leaseShare = 1 / 64;

/** A token bucket: `limit` requests at once, refilled evenly over the window. */
export class TokenBucket {
  readonly #limit: number;
  readonly #perMs: number;
  #tokens: number;
  #at: number;

  constructor(limit: number, windowSeconds: number, now: number) {
    this.#limit = limit;
    this.#perMs = limit / (windowSeconds * 1000);
    this.#tokens = limit;
    this.#at = now;
  }

  /** Takes tokens for requests to come; see `LimiterMessages.lease`. */
  lease(want: number, now: number): RateLease {
    this.#tokens = Math.min(this.#limit, this.#tokens + Math.max(0, now - this.#at) * this.#perMs);
    this.#at = now;
    if (this.#tokens < 1) return { granted: 0, retryAfterSeconds: Math.ceil((1 - this.#tokens) / this.#perMs / 1000) };
    const granted = Math.max(1, Math.min(want, Math.floor(this.#tokens * leaseShare)));
    this.#tokens -= granted;
    return { granted, retryAfterSeconds: 0 };
  }
}
