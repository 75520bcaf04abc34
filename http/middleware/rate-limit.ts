import type { Bus } from "../../bus/bus.ts";
import { SvcError } from "../../bus/errors.ts";

/** Requests that a thread takes from a bucket at once, while there is plenty. */
const leaseWanted = 1024;
/** Callers remembered; beyond it the list is begun anew, which costs each of them one question. */
const callersMax = 50_000;

/**
 * The rate limit as an http thread sees it: it spends leases of the caller's limiter actor, and asks for another when one is used
 * up. With little left in the bucket a lease is one request, so the limit is exact where it matters.
 */
export class RateLimiter {
  readonly #bus: Bus;
  readonly #enabled: boolean;
  readonly #left = new Map<string, number>();

  constructor(bus: Bus, enabled: boolean) {
    this.#bus = bus;
    this.#enabled = enabled;
  }

  /** Spends one request of the caller. Refuses with rate_limited. Returns nothing when it need not ask. */
  take(caller: string): Promise<void> | null {
    if (!this.#enabled) return null;
    const left = this.#left.get(caller);
    if (left !== undefined && left > 0) {
      this.#left.set(caller, left - 1);
      return null;
    }
    return this.#ask(caller);
  }

  async #ask(caller: string): Promise<void> {
    const lease = await this.#bus.ask({ kind: "limiter", key: caller }, "lease", { want: leaseWanted });
    if (lease.granted === 0) throw new SvcError("rate_limited", { retryAfterSeconds: lease.retryAfterSeconds });
    if (this.#left.size >= callersMax) this.#left.clear();
    // Another request of the same caller may have brought a lease meanwhile.
    this.#left.set(caller, (this.#left.get(caller) ?? 0) + lease.granted - 1);
  }
}
