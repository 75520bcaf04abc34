import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ProcessLock } from "./process-lock.ts";

/** Writes stop this long before the lease ends, because a batch takes time to reach the server. */
const marginMs = 500;

interface Waiting {
  readonly go: () => void;
  readonly stop: () => void;
}

/**
 * Holds back the writes of a host while its lease is not valid, as the process lock does for a process that is alone.
 * Before the host has entered it owns nothing, and the gate is open. The caller measures the end of the lease by the
 * monotonic clock from before the renewal was sent, so that it is never later than the end that other hosts see.
 */
export class LeaseGate implements ProcessLock {
  readonly #env: Env;
  readonly #waiting = new Set<Waiting>();
  #validUntil = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(env: Env) {
    this.#env = env;
  }

  /** The lease was renewed, and ends at this time of the monotonic clock. */
  renewed(until: number): void {
    this.#validUntil = this.#validUntil === Number.POSITIVE_INFINITY ? until : Math.max(this.#validUntil, until);
    if (this.#isOpen()) for (const { go } of this.#waiting) go();
  }

  whenHeld(timeoutMs: number): Promise<void> {
    if (this.#isOpen()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const settle = (work: () => void): void => {
        deadline.cancel();
        this.#waiting.delete(waiter);
        work();
      };
      const cause = new Error("the lease of this host could not be renewed");
      const stop = (): void => settle(() => reject(new SvcError("storage_unavailable", {}, { cause })));
      const waiter: Waiting = { go: () => settle(resolve), stop };
      const deadline = this.#env.timer(this.#isClosed ? 0 : timeoutMs, stop);
      this.#waiting.add(waiter);
    });
  }

  /** True if the host has had a lease. */
  get hasEntered(): boolean {
    return this.#validUntil !== Number.POSITIVE_INFINITY;
  }

  get isHeld(): boolean {
    return this.#isOpen();
  }

  renew(): void {}

  async release(): Promise<void> {
    this.#isClosed = true;
    for (const { stop } of this.#waiting) stop();
  }

  #isOpen(): boolean {
    return this.#env.monotonic() < this.#validUntil - marginMs;
  }
}
