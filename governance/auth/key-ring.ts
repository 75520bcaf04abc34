import type { Env } from "../../bus/env.ts";
import { type Principal, principalId } from "../../bus/protocol/principal.ts";
import type { Store } from "../../storage/store/store.ts";
import {
  type RuntimeKeyRow,
  runtimeKeyByDigest,
  runtimeKeysOf,
  type TenantKeyRow,
} from "../../storage/tables/runtime-keys.ts";
import { signInGrantOf } from "../../storage/tables/sign-in-grants.ts";
import { hashToken } from "../settings/key-token.ts";
import type { Settings } from "../settings/settings.ts";
import { keyScopes } from "./held-scopes.ts";
import { isSignInScheme, type SignInGrants } from "./sign-in-scopes.ts";
import { isLive } from "./stored-access.ts";

/** Time for which the answer of the store is used, so that a revoked key ends within it on every host. */
const cachedMs = 1_000;
const rememberedMax = 4_096;

interface Remembered {
  readonly principal: Promise<Principal | null>;
  readonly until: number;
}

/** The callers of keys that are made while the server runs. Each HTTP thread has its own. */
export class KeyRing {
  readonly #store: Store;
  readonly #env: Pick<Env, "now" | "monotonic">;
  readonly #settings: Pick<Settings, "allowedTenants"> & SignInGrants;
  /** By digest, the oldest answers first. */
  readonly #remembered = new Map<string, Remembered>();

  constructor(
    store: Store,
    settings: Pick<Settings, "allowedTenants"> & SignInGrants,
    env: Pick<Env, "now" | "monotonic">,
  ) {
    this.#store = store;
    this.#settings = settings;
    this.#env = env;
  }

  /** Returns the caller of a key; null if it does not work. Rejects if the store does not answer. */
  find(token: string): Promise<Principal | null> {
    const sha256 = hashToken(token);
    const known = this.#remembered.get(sha256);
    if (known !== undefined && this.#env.monotonic() < known.until) return known.principal;
    this.#remembered.delete(sha256);
    if (this.#remembered.size >= rememberedMax) this.#forgetOldest();
    const principal = this.#read(sha256);
    // A failure is not an answer.
    principal.catch(() => this.#remembered.delete(sha256));
    this.#remembered.set(sha256, { principal, until: this.#env.monotonic() + cachedMs });
    return principal;
  }

  /** Forgets all answers, after this thread has changed a key. */
  forget(): void {
    this.#remembered.clear();
  }

  async #read(sha256: string): Promise<Principal | null> {
    const row = await runtimeKeyByDigest(this.#store.system, sha256);
    if (row === undefined) return null;
    const { tenant_id, id, sub, owner, scopes } = row;
    const { allowedTenants } = this.#settings;
    if (allowedTenants.length > 0 && !allowedTenants.includes(tenant_id)) return null;
    if (!isLive(row, await this.#above(row), this.#env.now())) return null;
    const key = { id, owner: principalId(owner) };
    const principal: Principal = { tenant_id, sub, scopes, scheme: "api_key", issuer: "", key };
    return this.#ofOwner(principal, row);
  }

  async #above({ tenant_id, ancestors }: TenantKeyRow): Promise<ReadonlyMap<string, RuntimeKeyRow>> {
    if (ancestors.length === 0) return none;
    const all = await runtimeKeysOf(this.#store.tenant(tenant_id));
    return new Map(all.map((row) => [row.id, row]));
  }

  /** The key of a signed-in person grants at most what the person's entries grant, and ends with them (decision 246). */
  async #ofOwner(principal: Principal, row: TenantKeyRow): Promise<Principal | null> {
    const { tenant_id, owner } = row;
    if (!isSignInScheme(owner.scheme)) return principal;
    const signIn = await signInGrantOf(this.#store.tenant(tenant_id), owner.sub);
    const scopes = keyScopes(tenant_id, row, signIn, this.#settings, this.#env.now());
    return scopes && { ...principal, scopes };
  }

  #forgetOldest(): void {
    for (const oldest of this.#remembered.keys()) {
      this.#remembered.delete(oldest);
      return;
    }
  }
}

const none: ReadonlyMap<string, RuntimeKeyRow> = new Map();
