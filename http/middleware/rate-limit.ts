import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type OwnRate, ownRateKey } from "../../bus/protocol/limiter.ts";

/** Requests that a thread prefetches from a bucket at once, while the bucket is full enough. */
const leaseWanted = 1024;
/** Max callers with a remembered prefetch. Above it the map is cleared, and the requests left in it count as spent. */
const callersMax = 50_000;

interface Lease {
  left: number;
  /** Expiry on the monotonic clock. */
  until: number;
}

/**
 * The rate limit on an HTTP thread. It spends prefetched requests of the caller's limiter actor, and asks for more when they are spent or
 * expired. If the bucket is nearly empty it grants single requests, so the limit is exact there.
 */
export class RateLimiter {
  readonly #env: Env;
  readonly #bus: Bus;
  readonly #enabled: boolean;
  readonly #leases = new Map<string, Lease>();

  constructor(env: Env, bus: Bus, enabled: boolean) {
    this.#env = env;
    this.#bus = bus;
    this.#enabled = enabled;
  }

  /** Spends one request of the caller. Refuses with rate_limited. Returns null if no message to the actor is needed. */
  take(caller: string): Promise<void> | null {
    return this.#enabled ? this.#take(caller) : null;
  }

  #take(caller: string): Promise<void> | null {
    const lease = this.#leases.get(caller);
    if (lease !== undefined && lease.left > 0 && this.#env.monotonic() < lease.until) {
      lease.left--;
      return null;
    }
    return this.#ask(caller);
  }

  /** Spends one request of a rate of a route's own. Refuses with rate_limited. */
  takeOwn(rate: OwnRate): Promise<void> | null {
    return rate.limit === 0 ? null : this.#take(ownRateKey(rate));
  }

  async #ask(caller: string): Promise<void> {
    const askedAt = this.#env.monotonic();
    const { granted, forMs, retryAfterSeconds } = await this.#bus.ask({ kind: "limiter", key: caller }, "lease", {
      want: leaseWanted,
    });
    if (granted === 0) throw new SvcError("rate_limited", { retryAfterSeconds });
    if (granted === 1) return;
    const until = askedAt + forMs;
    const lease = this.#leases.get(caller);
    // A concurrent request of the same caller may have stored a prefetch already.
    if (lease !== undefined && lease.left > 0 && this.#env.monotonic() < lease.until) {
      lease.left += granted - 1;
      lease.until = Math.min(lease.until, until);
      return;
    }
    if (lease === undefined && this.#leases.size >= callersMax) this.#leases.clear();
    this.#leases.set(caller, { left: granted - 1, until });
  }
}
