import { createCipheriv, createDecipheriv, createHash, hkdfSync } from "node:crypto";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Store, TenantStore, WriteOp } from "../../storage/store/store.ts";
import { kvCompareAndSetOp, kvCountOp, kvDeleteOp, kvGet } from "../../storage/tables/kv.ts";
import type { Settings } from "../settings/settings.ts";

// Sign-ins in progress are rows of the key-value store, so that any host can end them (decision 231). A row is found by the hash of its
// handle, encrypted, and removed by a guarded write, so that it is used once. The rows belong to no tenant yet.

/** Not a valid id of a tenant, so that no tenant can read the rows. */
const noTenant = "~sign-in";
const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;

/** The kind of a row. */
export type FlowKind = "device" | "redirect" | "exchange" | "token";

/** A row that was read. */
export interface Flow<T> {
  readonly value: T;
  readonly version: number;
  readonly expires_at: number | null;
}

/** The sign-ins in progress. */
export class SignInFlows {
  readonly #store: TenantStore;
  readonly #env: Pick<Env, "now" | "id">;
  /** One for each signing key; the first encrypts. */
  readonly #keys: readonly Buffer[];

  constructor(store: Store, env: Pick<Env, "now" | "id">, { tokenSigningKey }: Pick<Settings, "tokenSigningKey">) {
    this.#store = store.tenant(noTenant);
    this.#env = env;
    this.#keys = tokenSigningKey.map((key) =>
      Buffer.from(hkdfSync("sha256", String(key.private.d), "", "svc sign-in flows", 32)),
    );
  }

  /** Stores a row of a new handle. */
  async add(kind: FlowKind, handle: string, value: unknown, ttlMs: number): Promise<void> {
    await this.#store.write([this.addOp(kind, handle, value, ttlMs)]);
  }

  /** Stores a row. Its batch refuses with conflict if the handle was stored before and has not expired. */
  addOp(kind: FlowKind, handle: string, value: unknown, ttlMs: number): WriteOp {
    const now = this.#env.now();
    const row = { key: keyOf(kind, handle), value: this.#seal(JSON.stringify(value)), expires_at: now + ttlMs };
    return kvCompareAndSetOp(this.#store, row, null, now);
  }

  /** Returns the row of a handle; null if there is none, or it has expired. */
  async read<T>(kind: FlowKind, handle: string): Promise<Flow<T> | null> {
    const row = await kvGet(this.#store, keyOf(kind, handle), this.#env.now());
    const text = row && this.#open(row.value);
    return text ? { value: JSON.parse(text) as T, version: row.version, expires_at: row.expires_at } : null;
  }

  /** Replaces the value of a row that was read. Returns the new row; null if another request changed it first, or it has expired. */
  async replace<T>(
    kind: FlowKind,
    handle: string,
    { version, expires_at }: Flow<T>,
    value: T,
  ): Promise<Flow<T> | null> {
    const row = { key: keyOf(kind, handle), value: this.#seal(JSON.stringify(value)), expires_at };
    try {
      const [[written] = []] = await this.#store.write([kvCompareAndSetOp(this.#store, row, version, this.#env.now())]);
      return { value, version: Number(written?.version), expires_at };
    } catch (error) {
      if (error instanceof SvcError && error.code === "conflict") return null;
      throw error;
    }
  }

  /** Removes a row that was read. False if another request removed it first. */
  remove(kind: FlowKind, handle: string, flow: Flow<unknown>): Promise<boolean> {
    return unlessConflict(this.#store.write([this.removeOp(kind, handle, flow)]));
  }

  /** Removes a row that was read. Its batch refuses with conflict if another request removed it first. */
  removeOp(kind: FlowKind, handle: string, { version }: Flow<unknown>): WriteOp {
    return kvDeleteOp(this.#store, keyOf(kind, handle), version);
  }

  /** Counts an event of the current period. Returns the seconds until the next period if `most` is reached, otherwise null. */
  async count(name: string, most: number, periodMs: number): Promise<number | null> {
    const now = this.#env.now();
    const period = Math.floor(now / periodMs);
    const end = (period + 1) * periodMs;
    const key = `count ${createHash("sha256").update(name).digest("base64url")} ${period}`;
    const op = kvCountOp(this.#store, { key, expires_at: end + periodMs }, most, now);
    return (await unlessConflict(this.#store.write([op]))) ? null : Math.max(1, Math.ceil((end - now) / 1_000));
  }

  #seal(text: string): string {
    const key = this.#keys[0];
    if (key === undefined) throw new Error("there is no key for sign-ins");
    const iv = Buffer.from(this.#env.id(), "hex").subarray(0, ivBytes);
    const cipher = createCipheriv(algorithm, key, iv);
    const sealed = [iv, cipher.update(text, "utf8"), cipher.final()];
    return Buffer.concat([...sealed, cipher.getAuthTag()]).toString("base64url");
  }

  #open(sealed: string): string | null {
    const bytes = Buffer.from(sealed, "base64url");
    for (const key of this.#keys) {
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes });
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      try {
        return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8");
      } catch {
        // Another key of the list sealed it.
      }
    }
    return null;
  }
}

function keyOf(kind: FlowKind, handle: string): string {
  return `${kind} ${createHash("sha256").update(handle).digest("base64url")}`;
}

/** Returns true if a write succeeded, false if its guard failed. */
export async function unlessConflict(written: Promise<unknown>): Promise<boolean> {
  try {
    await written;
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
