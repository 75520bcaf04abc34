import { Semaphore } from "./semaphore.ts";

/** Limits the number of concurrent tasks per tenant. Tasks of one tenant do not wait for those of others. */
export class TenantSemaphores {
  readonly #permits: number;
  readonly #semaphores = new Map<string, { readonly semaphore: Semaphore; count: number }>();

  constructor(permits: number) {
    this.#permits = permits;
  }

  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    let own = this.#semaphores.get(tenantId);
    if (!own) {
      own = { semaphore: new Semaphore(this.#permits), count: 0 };
      this.#semaphores.set(tenantId, own);
    }
    own.count++;
    try {
      return await own.semaphore.run(work);
    } finally {
      if (--own.count === 0) this.#semaphores.delete(tenantId);
    }
  }
}
