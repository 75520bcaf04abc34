import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { type Row, tenantSql } from "../store/statements.ts";
import { requestMs, type TenantStore, type WriteOp } from "../store/store.ts";

// How much a tenant stores on purpose, counted in the batch that stores it: a row for each kind, and one for all of them together.
// What would go over a limit changes no row, and so undoes its batch: no two writers pass a limit together.

/** What is counted by itself. A new one needs nothing but its name. */
export type StoredKind = "manifests" | "files" | "plans" | "jobs";

/** What is summed up now and then, against a quota of its own: see thread-quota.ts. */
export type SummedKind = "threads" | "workspaces";

/** What a write adds to what is stored; less than nothing when it takes away, the difference when it puts one in place of another. */
export interface StoredChange {
  readonly kind: StoredKind;
  readonly bytes: number;
  /** What may be stored of this kind, and how more is refused; absent where only the limit on all kinds counts. */
  readonly most?: { readonly bytes: number; readonly refusal: ErrorCode };
}

/** The setting that a refusal names. */
const quota = "SVC_TENANT_STORED_BYTES";
const total = "all";

const add = tenantSql(
  "stored_bytes_add",
  `INSERT INTO stored_bytes (tenant_id, kind, bytes) SELECT :tenant, ?, CAST(? AS BIGINT) WHERE CAST(? AS BIGINT) <= CAST(? AS BIGINT)
   ON CONFLICT (tenant_id, kind) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes
   WHERE stored_bytes.bytes + excluded.bytes <= ?`,
);
const set = tenantSql(
  "stored_bytes_set",
  `INSERT INTO stored_bytes (tenant_id, kind, bytes) VALUES (:tenant, ?, ?)
   ON CONFLICT (tenant_id, kind) DO UPDATE SET bytes = excluded.bytes`,
);
const takeAway = tenantSql(
  "stored_bytes_take_away",
  "UPDATE stored_bytes SET bytes = bytes - ? WHERE tenant_id = :tenant AND kind = ?",
);
const selectBytes = tenantSql(
  "stored_bytes_of_kind",
  "SELECT bytes FROM stored_bytes WHERE tenant_id = :tenant AND kind = ?",
);

/**
 * Makes a batch and counts what it stores, both or neither; `limit` is on what the tenant stores of all kinds, 0 for none. Who takes
 * away is never refused. Refuses with storage_quota_exceeded, and as `TenantStore.write` does.
 */
export async function writeStored(
  store: TenantStore,
  { kind, bytes, most }: StoredChange,
  limit: number,
  ops: readonly WriteOp[],
): Promise<readonly Row[][]> {
  try {
    return await store.write([...ops, ...countOps(store, kind, bytes, most?.bytes ?? 0, limit)], requestMs);
  } catch (error) {
    if (!isOverQuota(error)) throw error;
    if (most !== undefined && most.bytes > 0 && (await storedBytes(store, kind)) + bytes > most.bytes)
      throw new SvcError(most.refusal);
    const used_bytes = await storedBytes(store, total);
    const detail = { quota, limit_bytes: limit, used_bytes, asked_bytes: bytes };
    throw new SvcError("storage_quota_exceeded", { detail });
  }
}

/** What the tenant stores of a kind, or in all. */
export async function storedBytes(store: TenantStore, kind: StoredKind | SummedKind | typeof total): Promise<number> {
  const [row] = await store.read(selectBytes, kind);
  return (row?.bytes as number | undefined) ?? 0;
}

/** The rows that a kind counts in, always in this order, so that no two batches wait for each other. */
export function storedRows(kind: StoredKind): string[] {
  return [kind, total];
}

function countOps(store: TenantStore, kind: StoredKind, bytes: number, ofKind: number, ofAll: number): WriteOp[] {
  if (bytes === 0) return [];
  if (bytes < 0) return storedRows(kind).map((row) => store.op(takeAway, [-bytes, row], 1));
  const rows = [[kind, ofKind] as const, [total, ofAll] as const];
  return rows.map(([row, limit]) => {
    return addBytesOp(store, row, bytes, limit === 0 ? Number.MAX_SAFE_INTEGER : limit);
  });
}

/** Adds to a row. Its batch is refused as `isOverQuota` tells when the row would have more than `max`. */
export function addBytesOp(
  store: TenantStore,
  row: StoredKind | SummedKind | typeof total,
  bytes: number,
  max: number,
): WriteOp {
  return store.op(add, [row, bytes, bytes, max, max], 1);
}

/** Writes the row of what is summed up. */
export function setBytesOp(store: TenantStore, row: SummedKind, bytes: number): WriteOp {
  return store.op(set, [row, bytes]);
}

/** Whether a batch was refused because a row would have more bytes than it may. */
export function isOverQuota(error: unknown): boolean {
  return error instanceof SvcError && error.code === "conflict" && error.details.subject === add.name;
}
