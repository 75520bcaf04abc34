/**
 * Limits the concurrent sends of a thread, in total and per tenant. When a permit becomes free, the waiting tenant with
 * the fewest permits gets it, so that no tenant waits for all work of another.
 */
export class FairSemaphore {
  /** True if no more work may start. */
  stopped = false;
  readonly #max: number;
  readonly #ofTenantMax: number;
  #taken = 0;
  readonly #ofTenant = new Map<string, number>();
  /** Waiting callbacks by tenant and waiter, in order of arrival. */
  readonly #waiting = new Map<string, Map<string, () => void>>();

  constructor(max: number, ofTenantMax: number) {
    this.#max = max;
    this.#ofTenantMax = ofTenantMax;
  }

  /** Number of permits in use. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes a permit if one is available to the tenant. Returns false otherwise. */
  take(tenantId: string): boolean {
    const own = this.#ofTenant.get(tenantId) ?? 0;
    if (this.#taken >= this.#max || own >= this.#ofTenantMax) return false;
    this.#taken++;
    this.#ofTenant.set(tenantId, own + 1);
    return true;
  }

  /** Calls `work` once, when a permit has been taken for it. No effect if `who` waits already. */
  await(tenantId: string, who: string, work: () => void): void {
    const own = this.#waiting.get(tenantId) ?? new Map<string, () => void>();
    if (!own.has(who)) own.set(who, work);
    this.#waiting.set(tenantId, own);
  }

  /** Number of waiting callbacks of a tenant. */
  waiting(tenantId: string): number {
    return this.#waiting.get(tenantId)?.size ?? 0;
  }

  /** Removes the waiting callback of `who`, which is then not called. */
  leave(tenantId: string, who: string): void {
    const own = this.#waiting.get(tenantId);
    own?.delete(who);
    if (own?.size === 0) this.#waiting.delete(tenantId);
  }

  /** Returns a permit. */
  free(tenantId: string): void {
    this.#taken--;
    const left = (this.#ofTenant.get(tenantId) ?? 0) - 1;
    if (left > 0) this.#ofTenant.set(tenantId, left);
    else this.#ofTenant.delete(tenantId);
    this.#handOver();
  }

  #handOver(): void {
    let next: string | null = null;
    let fewest = this.#ofTenantMax;
    for (const tenantId of this.#waiting.keys()) {
      const own = this.#ofTenant.get(tenantId) ?? 0;
      if (own < fewest) [next, fewest] = [tenantId, own];
    }
    if (next === null || !this.take(next)) return;
    const own = this.#waiting.get(next) as Map<string, () => void>;
    const [[who, work]] = own as unknown as [[string, () => void]];
    own.delete(who);
    // Moves the tenant to the end, so that tenants with equally many permits take turns.
    this.#waiting.delete(next);
    if (own.size > 0) this.#waiting.set(next, own);
    work();
  }
}
