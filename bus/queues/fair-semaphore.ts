/**
 * How much a thread sends at once: so many in all, and so many for one tenant. Who comes when all are taken is called when one is free,
 * the tenant with the fewest before others, so that no tenant waits behind all that another has.
 */
export class FairSemaphore {
  /** Nothing more is begun. */
  stopped = false;
  readonly #max: number;
  readonly #ofTenantMax: number;
  #taken = 0;
  readonly #ofTenant = new Map<string, number>();
  /** What is to be called, by tenant and by who waits, in the order in which they came. */
  readonly #waiting = new Map<string, Map<string, () => void>>();

  constructor(max: number, ofTenantMax: number) {
    this.#max = max;
    this.#ofTenantMax = ofTenantMax;
  }

  /** How many are taken. */
  get taken(): number {
    return this.#taken;
  }

  /** Takes a slot, if one is there for the tenant. */
  take(tenantId: string): boolean {
    const own = this.#ofTenant.get(tenantId) ?? 0;
    if (this.#taken >= this.#max || own >= this.#ofTenantMax) return false;
    this.#taken++;
    this.#ofTenant.set(tenantId, own + 1);
    return true;
  }

  /** Has `work` called once, with a slot taken for it, when there is one. Said again by who waits already, it changes nothing. */
  await(tenantId: string, who: string, work: () => void): void {
    const own = this.#waiting.get(tenantId) ?? new Map<string, () => void>();
    if (!own.has(who)) own.set(who, work);
    this.#waiting.set(tenantId, own);
  }

  /** Gives a slot back. */
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
    // Of those that have as few, whoever was last served is last.
    this.#waiting.delete(next);
    if (own.size > 0) this.#waiting.set(next, own);
    work();
  }
}
