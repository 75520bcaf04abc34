import { Gate } from "../runtime/gate.ts";

/** Lets so many of each tenant's do something at once; the tenant's others wait their turn, and nobody else. */
export class TenantGates {
  readonly #places: number;
  readonly #gates = new Map<string, { readonly gate: Gate; count: number }>();

  constructor(places: number) {
    this.#places = places;
  }

  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    let own = this.#gates.get(tenantId);
    if (!own) {
      own = { gate: new Gate(this.#places), count: 0 };
      this.#gates.set(tenantId, own);
    }
    own.count++;
    try {
      return await own.gate.run(work);
    } finally {
      if (--own.count === 0) this.#gates.delete(tenantId);
    }
  }
}
