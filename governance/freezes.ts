import { SvcError } from "../bus/errors.ts";
import type { Scope } from "../storage/store/store.ts";
import { allFreezes, type FreezeSelector } from "../storage/tables/freezes.ts";

/** The freezes of all tenants, as this thread knows them (decisions 118 and 189). A lookup reads memory only. */
export class Freezes {
  #byTenant = new Map<string, FreezeSelector[]>();
  /** The first read; null before it is asked for, and after it has ended. */
  #first: Promise<void> | null = null;
  #wasRead = false;
  /** Numbers of the newest read, and of the newest that has ended. */
  #begun = 0;
  #ended = 0;

  /** Null once the freezes are known; otherwise await it. */
  get pending(): Promise<void> | null {
    return this.#first;
  }

  /** Reads the stored freezes. Rejects if the store does not answer; then the earlier ones stay in effect. */
  read(store: Scope): Promise<void> {
    const reading = this.#read(store);
    if (!this.#wasRead) this.#first = reading;
    return reading;
  }

  async #read(store: Scope): Promise<void> {
    const number = ++this.#begun;
    const found = new Map<string, FreezeSelector[]>();
    for (const { tenant_id, selector } of await allFreezes(store)) {
      const own = found.get(tenant_id) ?? [];
      own.push(selector);
      found.set(tenant_id, own);
    }
    // A slower read that began before knows less.
    if (number < this.#ended) return;
    this.#ended = number;
    this.#byTenant = found;
    this.#wasRead = true;
    this.#first = null;
  }

  /** True if runs of this caller and manifest are frozen. */
  stopsRun(tenantId: string, sub: string, manifest: string): boolean {
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) return false;
    return own.some((one) => one.tool === undefined && one.server === undefined && fits(one, sub, [manifest]));
  }

  /** Refuses with frozen if runs of this caller and manifest are frozen. */
  refuseRun(tenantId: string, sub: string, manifest: string): void {
    if (this.stopsRun(tenantId, sub, manifest)) throw new SvcError("frozen");
  }

  /** Returns the tool or server that is frozen for a call; null if the call may be made. `server` is null for other tools. */
  stopsCall(
    tenantId: string,
    sub: string,
    manifests: readonly string[],
    tool: string,
    server: string | null,
  ): string | null {
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) return null;
    for (const one of own) {
      if ((one.tool === undefined && one.server === undefined) || !fits(one, sub, manifests)) continue;
      if (one.tool !== undefined && one.tool !== tool) continue;
      if (one.server !== undefined && one.server !== server) continue;
      return one.tool === undefined ? `the server ${one.server}` : `the tool ${one.tool}`;
    }
    return null;
  }
}

function fits({ manifest, principal }: FreezeSelector, sub: string, manifests: readonly string[]): boolean {
  return (manifest === undefined || manifests.includes(manifest)) && (principal === undefined || principal === sub);
}
