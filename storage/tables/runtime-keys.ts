import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { lockTenantOp } from "./tenant-lock.ts";

// The API keys that are made while the server runs (decisions 232 and 252). A revoked key keeps its row for some time, so that every process
// learns of it by its time of change. A key also ends with each key above it.

/** Who made a key that no key has made. */
export interface KeyOwner {
  readonly sub: string;
  readonly scheme: string;
  readonly issuer: string;
}

/** What the calls of a key may spend. */
export interface KeyBudget {
  readonly period: "day" | "month";
  readonly tokens: number | null;
  readonly usd: number | null;
}

const keyTable = table(
  "runtime_keys",
  {
    id: text,
    /** SHA-256 of the key. */
    sha256: text,
    /** The beginning of the key, by which people recognize it. */
    prefix: text,
    name: text,
    sub: text,
    scopes: json<readonly string[]>(),
    owner: json<KeyOwner>(),
    /** Ids of the keys above it, the oldest first. */
    ancestors: json<readonly string[]>(),
    budget: nullable(json<KeyBudget>()),
    created_at: integer,
    changed_at: integer,
    expires_at: integer,
    revoked_at: nullable(integer),
  },
  ({ text: secret }) => ({
    ...{ id: "row", sha256: secret, prefix: secret, name: secret, sub: secret, scopes: [], ancestors: [] },
    ...{ owner: { sub: secret, scheme: "api_key", issuer: "" }, budget: null, created_at: 1, changed_at: 1 },
    ...{ expires_at: 10, revoked_at: null },
  }),
);

/** A stored key. */
export type RuntimeKeyRow = RowIn<typeof keyTable>;
/** A stored key of any tenant. */
export type TenantKeyRow = RuntimeKeyRow & { readonly tenant_id: string };

/** Max keys of one tenant, with those that have ended and are not deleted yet. */
export const runtimeKeysMax = 1_000;
const changesMax = 1_000;

const { columns } = keyTable;
const numbers: ReadonlySet<string> = new Set(["created_at", "changed_at", "expires_at", "revoked_at"]);
/** Postgres knows no types of parameters in a list of SELECT. */
const places = columns
  .split(", ")
  .map((name) => `CAST(? AS ${numbers.has(name) ? "BIGINT" : "TEXT"})`)
  .join(", ");
const insertKey = tenantSql(
  "runtime_keys_insert",
  `INSERT INTO runtime_keys (tenant_id, ${columns}) SELECT :tenant, ${places}
   WHERE (SELECT COUNT(*) FROM runtime_keys WHERE tenant_id = :tenant) < ${runtimeKeysMax}`,
);
const revoke = tenantSql(
  "runtime_key_revoke",
  `UPDATE runtime_keys SET revoked_at = :now, changed_at = :now
   WHERE tenant_id = :tenant AND id = ? AND revoked_at IS NULL
   RETURNING id`,
);
const touch = tenantSql(
  "runtime_key_touch",
  "UPDATE runtime_keys SET changed_at = :now WHERE tenant_id = :tenant AND id = ?",
);
const selectOfTenant = tenantSql(
  "runtime_keys_of_tenant",
  `SELECT ${columns} FROM runtime_keys WHERE tenant_id = :tenant ORDER BY created_at, id LIMIT ${runtimeKeysMax}`,
);
const selectByDigest = systemSql(
  "runtime_key_by_digest",
  `SELECT tenant_id, ${columns} FROM runtime_keys WHERE sha256 = ?`,
);
const selectChanged = systemSql(
  "runtime_keys_changed",
  `SELECT tenant_id, ${columns} FROM runtime_keys WHERE (changed_at, tenant_id, id) > (?, ?, ?)
   ORDER BY changed_at, tenant_id, id LIMIT ${changesMax}`,
);
const deleteOld = systemSql(
  "runtime_keys_delete",
  `DELETE FROM runtime_keys WHERE (tenant_id, id) IN
     (SELECT tenant_id, id FROM runtime_keys
      WHERE expires_at <= ? OR (changed_at <= ? AND revoked_at IS NOT NULL) LIMIT ?)
   RETURNING id`,
);

/** Returns the key of a tenant with an id. */
export const runtimeKeyById = selectOne(keyTable, ["id"]);

/** Stores a new key. Refuses with conflict if the tenant has too many. Its time of change is that of the store's clock, which all processes share. */
export function insertRuntimeKeyOps(store: TenantStore, row: RuntimeKeyRow): WriteOp[] {
  return [
    lockTenantOp(store, keyTable.name),
    ...[store.op(insertKey, keyTable.encode(row), 1), store.op(touch, [row.id])],
  ];
}

/** Revokes a key. Its batch returns a row unless it was revoked before. */
export function revokeRuntimeKeyOp(store: TenantStore, id: string): WriteOp {
  return store.op(revoke, [id]);
}

/** Returns the keys of a tenant, the oldest first. */
export async function runtimeKeysOf(store: TenantStore): Promise<RuntimeKeyRow[]> {
  return (await store.read(selectOfTenant)).map((row) => keyTable.decode(row));
}

/** Returns the key with a digest. */
export async function runtimeKeyByDigest(store: Scope, sha256: string): Promise<TenantKeyRow | undefined> {
  const [row] = await store.read(selectByDigest, sha256);
  return row && withTenant(row);
}

/** Returns the keys of all tenants that changed after a time. */
export async function runtimeKeysChanged(store: Scope, after: number): Promise<TenantKeyRow[]> {
  const found: TenantKeyRow[] = [];
  let last: readonly [number, string, string] = [after, "", ""];
  while (true) {
    const page = (await store.read(selectChanged, ...last)).map(withTenant);
    found.push(...page);
    const end = page.at(-1);
    if (end === undefined || page.length < changesMax) return found;
    last = [end.changed_at, end.tenant_id, end.id];
  }
}

/** Deletes up to `limit` keys that expired or were revoked, which is their last change, at or before a time. Returns their number. */
export async function deleteOldRuntimeKeys(store: Scope, before: number, limit: number): Promise<number> {
  const [rows = []] = await store.write([store.op(deleteOld, [before, before, limit])]);
  return rows.length;
}

function withTenant({ tenant_id, ...row }: Parameters<typeof keyTable.decode>[0]): TenantKeyRow {
  return { ...keyTable.decode(row), tenant_id: tenant_id as string };
}
