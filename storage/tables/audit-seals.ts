import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, type RowIn, table, text } from "../store/table.ts";
import { type WholeAuditRow, wholeAuditTable } from "./audit.ts";

// The audit chain of each tenant (decisions 117 and 190). A trigger marks each new audit row in `audit_unsealed`. A seal gives some of
// those rows sequence numbers and hashes, and deletes their marks in the same batch, so audit rows are written once. The head names the
// last hash. The base is where the chain begins after retention has deleted the oldest seals.

/** A sealed row: its time, its id, the keyed digest of its payload, and the hash of the chain up to it. */
export type SealEntry = readonly [ts: number, id: string, digest: string, hash: string];

const sealTable = table(
  "audit_seals",
  {
    first_seq: integer,
    last_seq: integer,
    /** The newest time of its rows. */
    last_ts: integer,
    sealed_at: integer,
    key_id: text,
    entries: json<readonly SealEntry[]>(),
  },
  ({ text: id }) => ({
    ...{ first_seq: 1, last_seq: 1, last_ts: 5, sealed_at: 5, key_id: "k" },
    entries: [[5, id, "d", "h"] as const],
  }),
);

/** Max rows of one seal. */
export const sealRowsMax = 100;

/** Sequence numbers and hashes of some consecutive rows. */
export type SealRow = RowIn<typeof sealTable>;

const headTable = table(
  "audit_heads",
  {
    /** Sequence number and hash of the last sealed row. */
    seq: integer,
    hash: text,
    /** The key of the last seal. */
    key_id: text,
    sealed_at: integer,
    /** Sequence number and hash before the first stored seal. */
    base_seq: integer,
    base_hash: text,
    /** Retention may have deleted rows that are older. */
    pruned_before: integer,
    base_key_id: text,
    /** Keyed hash of the base: a base that was changed without the key does not fit it. */
    base_mac: text,
  },
  ({ text: hash }) => ({
    ...{ seq: 1, hash, key_id: "k", sealed_at: 5, base_seq: 0, base_hash: "", pruned_before: 0 },
    ...{ base_key_id: "k", base_mac: "m" },
  }),
);

/** The end of a tenant's chain, and its beginning. */
export type HeadRow = RowIn<typeof headTable>;

/** The beginning of a chain. */
export type ChainBase = Pick<HeadRow, "base_seq" | "base_hash" | "pruned_before" | "base_key_id" | "base_mac">;

// Without a sample row: the trigger inserts one with that of the table audit.
const unsealedTable = table("audit_unsealed", { ts: integer, id: text });

/** Mark of an audit row without a seal; `row` is null if the row is gone. */
export interface UnsealedRow extends RowIn<typeof unsealedTable> {
  readonly row: WholeAuditRow | null;
}

const auditColumns = wholeAuditTable.columns.split(", ");
const ofAudit = auditColumns.map((name) => `a.${name}`).join(", ");

const selectTenants = systemSql(
  "audit_unsealed_tenants",
  "SELECT tenant_id FROM audit_unsealed WHERE tenant_id > ? GROUP BY tenant_id ORDER BY tenant_id LIMIT ?",
);
const selectUnsealed = tenantSql(
  "audit_unsealed_rows",
  `SELECT u.ts AS unsealed_ts, u.id AS unsealed_id, ${ofAudit}
   FROM audit_unsealed u LEFT JOIN audit a ON a.tenant_id = u.tenant_id AND a.ts = u.ts AND a.id = u.id
   WHERE u.tenant_id = :tenant ORDER BY u.ts, u.id LIMIT ?`,
);
const deleteMarks = tenantSql(
  "audit_unsealed_delete",
  "DELETE FROM audit_unsealed WHERE tenant_id = :tenant AND (ts, id) <= (?, ?)",
);
const insertSeal = insertInto(sealTable);
const insertHead = insertInto(headTable);
const selectHead = tenantSql("audit_head", `SELECT ${headTable.columns} FROM audit_heads WHERE tenant_id = :tenant`);
const selectNewest = systemSql(
  "audit_heads_newest",
  "SELECT tenant_id, seq, hash FROM audit_heads ORDER BY sealed_at DESC, tenant_id LIMIT ?",
);
const advanceHead = tenantSql(
  "audit_head_advance",
  `UPDATE audit_heads SET seq = ?, hash = ?, key_id = ?, sealed_at = ?
   WHERE tenant_id = :tenant AND seq = ? AND hash = ?`,
);
const selectSeals = tenantSql(
  "audit_seals_from",
  `SELECT ${sealTable.columns} FROM audit_seals
   WHERE tenant_id = :tenant AND first_seq > ? AND last_seq >= ? ORDER BY first_seq LIMIT ?`,
);
const selectSealed = tenantSql("audit_sealed_rows", {
  // A cross join keeps the order: otherwise SQLite reads all rows of the tenant for each entry.
  sqlite: `SELECT ${ofAudit} FROM json_each(?) e CROSS JOIN audit a
     ON a.tenant_id = :tenant AND a.ts = json_extract(e.value, '$[0]') AND a.id = json_extract(e.value, '$[1]')`,
  postgres: `SELECT ${ofAudit} FROM json_array_elements(CAST(? AS json)) e JOIN audit a
     ON a.tenant_id = :tenant AND a.ts = CAST(e ->> 0 AS BIGINT) AND a.id = e ->> 1`,
});
const countRows = tenantSql("audit_count", "SELECT COUNT(*) AS rows_stored FROM audit WHERE tenant_id = :tenant");
const countMarks = tenantSql(
  "audit_unsealed_count",
  `SELECT COUNT(a.id) AS unsealed FROM audit_unsealed u
   LEFT JOIN audit a ON a.tenant_id = u.tenant_id AND a.ts = u.ts AND a.id = u.id WHERE u.tenant_id = :tenant`,
);
const moveBase = tenantSql(
  "audit_base_move",
  `UPDATE audit_heads SET base_seq = ?, base_hash = ?, pruned_before = ?, base_key_id = ?, base_mac = ?
   WHERE tenant_id = :tenant AND base_seq = ? AND base_mac = ?`,
);
const deleteSeals = tenantSql(
  "audit_seals_delete",
  "DELETE FROM audit_seals WHERE tenant_id = :tenant AND first_seq <= ? AND last_seq <= ?",
);

/** Returns tenants with unsealed rows, after the given one. */
export async function unsealedTenants(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectTenants, after, limit)).map(({ tenant_id }) => tenant_id as string);
}

/** Returns the first unsealed rows of a tenant, by time and id. */
export async function unsealedRows(store: TenantStore, limit: number): Promise<UnsealedRow[]> {
  const rows = await store.read(selectUnsealed, limit);
  return rows.map(({ unsealed_ts, unsealed_id, ...row }) => ({
    ts: unsealed_ts as number,
    id: unsealed_id as string,
    row: row.id === null ? null : wholeAuditTable.decode(row),
  }));
}

/** Returns the head of a tenant's chain; undefined before the first seal. */
export async function headOfChain(store: TenantStore): Promise<HeadRow | undefined> {
  const [row] = await store.read(selectHead);
  return row && headTable.decode(row);
}

/** Returns the heads of the chains that were sealed last. */
export async function newestHeads(
  store: Scope,
  limit: number,
): Promise<(Pick<HeadRow, "seq" | "hash"> & { readonly tenant_id: string })[]> {
  const rows = await store.read(selectNewest, limit);
  return rows.map(({ tenant_id, seq, hash }) => ({
    tenant_id: tenant_id as string,
    seq: seq as number,
    hash: hash as string,
  }));
}

/**
 * Stores the seal of the first unsealed rows. Refuses with conflict if the head is no longer `before`, or another row belongs among the
 * sealed ones.
 */
export function sealOps(store: TenantStore, before: HeadRow | null, seal: SealRow, base: ChainBase): WriteOp[] {
  const [ts, id, , hash] = seal.entries.at(-1) as SealEntry;
  const { last_seq: seq, key_id, sealed_at } = seal;
  const head =
    before === null
      ? insertHead(store, { seq, hash, key_id, sealed_at, ...base })
      : store.op(advanceHead, [seq, hash, key_id, sealed_at, before.seq, before.hash], 1);
  return [head, insertSeal(store, seal), store.op(deleteMarks, [ts, id], seal.entries.length)];
}

/** Returns seals that end at or after a sequence number, in order. */
export async function sealsFrom(store: TenantStore, seq: number, limit: number): Promise<SealRow[]> {
  // Only the key has an index; a seal that ends at `seq` begins less than `sealRowsMax` before.
  return (await store.readLong(selectSeals, seq - sealRowsMax, seq, limit)).map((row) => sealTable.decode(row));
}

/** Returns the stored rows of a seal. */
export async function rowsOfSeal(store: TenantStore, { entries }: SealRow): Promise<WholeAuditRow[]> {
  const keys = JSON.stringify(entries.map(([ts, id]) => [ts, id]));
  return (await store.readLong(selectSealed, keys)).map((row) => wholeAuditTable.decode(row));
}

/** Returns the number of all stored rows, and then of the unsealed ones. */
export async function countAuditRows(store: TenantStore): Promise<{ stored: number; unsealed: number }> {
  const [all] = await store.readLong(countRows);
  const [marked] = await store.readLong(countMarks);
  return { stored: Number(all?.rows_stored ?? 0), unsealed: Number(marked?.unsealed ?? 0) };
}

/** Moves the base of a chain, and deletes the seals before it. Refuses with conflict if the base has moved since. */
export function moveBaseOps(store: TenantStore, before: ChainBase, base: ChainBase): WriteOp[] {
  const { base_seq, base_hash, pruned_before, base_key_id, base_mac } = base;
  const values = [base_seq, base_hash, pruned_before, base_key_id, base_mac, before.base_seq, before.base_mac];
  return [store.op(moveBase, values, 1), store.op(deleteSeals, [base_seq, base_seq])];
}
