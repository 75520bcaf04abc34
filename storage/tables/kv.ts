import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";

// Small values of a tenant under a key, each with a version and an optional expiry. A version is never reused: it is
// the time of the change, or the previous version plus one. An old version is therefore refused even after the value
// was deleted and created again.

/** A stored value. */
export interface KvEntry {
  readonly value: string;
  readonly version: number;
  readonly expires_at: number | null;
}

/** A value and its expiry; null for none. */
export interface KvValue {
  readonly key: string;
  readonly value: string;
  readonly expires_at: number | null;
}

const selectEntry = tenantSql(
  "kv_get",
  "SELECT value, version, expires_at FROM kv WHERE tenant_id = :tenant AND key = ? AND (expires_at IS NULL OR expires_at > ?)",
);
const change = `value = excluded.value, expires_at = excluded.expires_at,
     version = CASE WHEN kv.version >= excluded.version THEN kv.version + 1 ELSE excluded.version END`;
const insertEntry = "INSERT INTO kv (tenant_id, key, value, version, expires_at) VALUES (:tenant, ?, ?, ?, ?)";
const setEntry = tenantSql(
  "kv_set",
  `${insertEntry} ON CONFLICT (tenant_id, key) DO UPDATE SET ${change} RETURNING version`,
);
// An expired entry counts as absent. A live one leaves the row unchanged, so the expected count fails.
const createEntry = tenantSql(
  "kv_create",
  `${insertEntry} ON CONFLICT (tenant_id, key) DO UPDATE SET ${change} WHERE kv.expires_at <= ? RETURNING version`,
);
const replaceEntry = tenantSql(
  "kv_replace",
  `UPDATE kv SET value = ?, expires_at = ?, version = CASE WHEN version >= ? THEN version + 1 ELSE ? END
   WHERE tenant_id = :tenant AND key = ? AND version = ? AND (expires_at IS NULL OR expires_at > ?) RETURNING version`,
);
const countEntry = tenantSql(
  "kv_count",
  `${insertEntry} ON CONFLICT (tenant_id, key) DO UPDATE SET value = CAST(CAST(kv.value AS BIGINT) + 1 AS TEXT),
     version = kv.version + 1 WHERE CAST(kv.value AS BIGINT) < ? RETURNING value`,
);
const deleteEntry = tenantSql("kv_delete", "DELETE FROM kv WHERE tenant_id = :tenant AND key = ?");
const deleteEntryAt = tenantSql("kv_delete_at", "DELETE FROM kv WHERE tenant_id = :tenant AND key = ? AND version = ?");
const deleteExpired = systemSql(
  "kv_delete_lapsed",
  `DELETE FROM kv WHERE (tenant_id, key) IN (SELECT tenant_id, key FROM kv WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
   RETURNING version`,
);

/** Returns the value of a key, unless it has expired. */
export async function kvGet(store: TenantStore, key: string, now: number): Promise<KvEntry | undefined> {
  const [row] = await store.read(selectEntry, key, now);
  return row as unknown as KvEntry | undefined;
}

/** Sets a value unconditionally. The batch returns a row with the new `version`. */
export function kvSetOp(store: TenantStore, { key, value, expires_at }: KvValue, now: number): WriteOp {
  return store.op(setEntry, [key, value, now, expires_at]);
}

/**
 * Sets a value if the entry has this `version`, or does not exist and `version` is null; otherwise the batch refuses
 * with conflict. The batch returns a row with the new `version`.
 */
export function kvCompareAndSetOp(
  store: TenantStore,
  { key, value, expires_at }: KvValue,
  version: number | null,
  now: number,
): WriteOp {
  return version === null
    ? store.op(createEntry, [key, value, now, expires_at, now], 1)
    : store.op(replaceEntry, [value, expires_at, now, now, key, version, now], 1);
}

/**
 * Increments a count, which starts at 0. The batch refuses with conflict once it has reached `most`. Not for keys that
 * expire and are reused.
 */
export function kvCountOp(
  store: TenantStore,
  { key, expires_at }: Omit<KvValue, "value">,
  most: number,
  now: number,
): WriteOp {
  return store.op(countEntry, [key, "1", now, expires_at, most], 1);
}

/** Deletes an entry. If a version is given, refuses with conflict unless it matches. */
export function kvDeleteOp(store: TenantStore, key: string, version?: number): WriteOp {
  return version === undefined ? store.op(deleteEntry, [key]) : store.op(deleteEntryAt, [key, version], 1);
}

/** Deletes up to `limit` expired entries. Returns their number. */
export async function deleteExpiredEntries(store: Scope, now: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteExpired, [now, limit])]);
  return rows?.length ?? 0;
}
