import type { Scope } from "../../storage/store/store.ts";
import { type RuntimeKeyRow, runtimeKeysChanged } from "../../storage/tables/runtime-keys.ts";
import { type SignInGrantRow, signInGrantsSince } from "../../storage/tables/sign-in-grants.ts";

/** Every read covers this time again, because a batch may commit after a later one. */
const overlapMs = 60_000;
/** Interval at which old rows are forgotten, and their age. */
const pruneMs = 3_600_000;
const keptMs = 60 * 86_400_000;

/** The keys and sign-ins of all tenants, as this thread knows them. A lookup reads memory only. */
export class StoredAccess {
  readonly #keys = new Map<string, Map<string, RuntimeKeyRow>>();
  readonly #signIns = new Map<string, Map<string, SignInGrantRow>>();
  #keysAt = 0;
  #signInsAt = 0;
  #prunesAt = 0;

  /** Reads what has changed. Rejects if the store does not answer. */
  async read(store: Scope, what: { readonly keys: boolean; readonly signIns: boolean }, now: number): Promise<void> {
    if (now >= this.#prunesAt) {
      this.#prunesAt = now + pruneMs;
      prune(this.#keys, ({ expires_at, revoked_at }) => Math.min(expires_at, revoked_at ?? expires_at) <= now - keptMs);
      prune(this.#signIns, ({ at }) => at <= now - keptMs);
    }
    if (what.keys)
      for (const { tenant_id, ...row } of await runtimeKeysChanged(store, this.#keysAt - overlapMs)) {
        put(this.#keys, tenant_id, row.id, row);
        this.#keysAt = Math.max(this.#keysAt, row.changed_at);
      }
    if (what.signIns)
      for (const { tenant_id, ...row } of await signInGrantsSince(store, this.#signInsAt - overlapMs)) {
        put(this.#signIns, tenant_id, row.sub, row);
        this.#signInsAt = Math.max(this.#signInsAt, row.at);
      }
    this.isRead = true;
  }

  /** True after the first read. */
  isRead = false;

  /** True if the thread has read the key. */
  knows(tenantId: string, keyId: string): boolean {
    return this.#keys.get(tenantId)?.has(keyId) ?? false;
  }

  /** Returns the keys of a subject that work at a time. */
  keysOf(tenantId: string, sub: string, now: number): RuntimeKeyRow[] {
    const own = this.#keys.get(tenantId);
    return own === undefined ? [] : [...own.values()].filter((row) => row.sub === sub && isLive(row, own, now));
  }

  /** Returns the live keys of a tenant whose budgets the calls of a subject spend from: its keys, and those above them. */
  payingKeys(tenantId: string, sub: string, now: number): RuntimeKeyRow[] {
    const own = this.#keys.get(tenantId);
    if (own === undefined) return [];
    const ids = new Set(this.keysOf(tenantId, sub, now).flatMap(({ id, ancestors }) => [...ancestors, id]));
    return [...ids].flatMap((id) => own.get(id) ?? []).filter(({ budget }) => budget !== null);
  }

  /** Returns the last sign-in of a principal; undefined if it is not known. */
  signInOf(tenantId: string, sub: string): SignInGrantRow | undefined {
    return this.#signIns.get(tenantId)?.get(sub);
  }
}

/** True if a key and all keys above it have neither expired nor been revoked. */
export function isLive(row: RuntimeKeyRow, known: Pick<Map<string, RuntimeKeyRow>, "get">, now: number): boolean {
  const isGood = (one: RuntimeKeyRow | undefined) => one?.revoked_at === null && one.expires_at > now;
  return isGood(row) && row.ancestors.every((id) => isGood(known.get(id)));
}

function prune<T>(all: Map<string, Map<string, T>>, isOld: (row: T) => boolean): void {
  for (const [tenantId, own] of all) {
    for (const [id, row] of own) if (isOld(row)) own.delete(id);
    if (own.size === 0) all.delete(tenantId);
  }
}

function put<T>(into: Map<string, Map<string, T>>, tenantId: string, id: string, row: T): void {
  const own = into.get(tenantId) ?? new Map<string, T>();
  own.set(id, row);
  into.set(tenantId, own);
}
