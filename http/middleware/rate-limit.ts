import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";

/** Requests that a thread takes from a bucket at once, while there is plenty. */
const leaseWanted = 1024;
/** Callers whose lease is remembered; beyond it the list is begun anew, and what was left in it counts as spent. */
const callersMax = 50_000;

interface Lease {
  left: number;
  /** Monotonic. */
  until: number;
}

/**
 * The rate limit as an http thread sees it: it spends leases of the caller's limiter actor, and asks for another when one is used
 * up or over. With little left in the bucket a lease is one request, so the limit is exact where it matters.
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

  /** Spends one request of the caller. Refuses with rate_limited. Returns nothing when it need not ask. */
  take(caller: string): Promise<void> | null {
    if (!this.#enabled) return null;
    const lease = this.#leases.get(caller);
    if (lease !== undefined && lease.left > 0 && this.#env.monotonic() < lease.until) {
      lease.left--;
      return null;
    }
    return this.#ask(caller);
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
    // Another request of the same caller may have brought a lease meanwhile.
    if (lease !== undefined && lease.left > 0 && this.#env.monotonic() < lease.until) {
      lease.left += granted - 1;
      lease.until = Math.min(lease.until, until);
      return;
    }
    if (lease === undefined && this.#leases.size >= callersMax) this.#leases.clear();
    this.#leases.set(caller, { left: granted - 1, until });
  }
}
