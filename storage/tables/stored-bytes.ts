import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { type Row, tenantSql } from "../store/statements.ts";
import { requestMs, type TenantStore, type WriteOp } from "../store/store.ts";

// The bytes that a tenant stores, counted in the batch that stores them: a row per kind, and one for the total. An
// update beyond a limit changes no row and so rolls back its batch. Concurrent writers therefore cannot exceed a limit
// together.

/** Kinds with a row of their own. A new kind needs only a name. */
export type StoredKind =
  | "manifests"
  | "files"
  | "artifacts"
  | "plans"
  | "jobs"
  | "mcp_pins"
  | "quarantine"
  | "documents"
  | "memories"
  | "skills"
  | "eval_datasets"
  | "eval_runs"
  | "workflows";

/** Kinds that are summed periodically, against a separate quota; see thread-quota.ts. */
export type SummedKind = "threads" | "workspaces";

/** The change in stored bytes of a write: negative for a deletion, and the difference for a replacement. */
export interface StoredChange {
  readonly kind: StoredKind;
  readonly bytes: number;
  /** The limit of this kind and its error code; absent if only the total is limited. */
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
 * Writes a batch and counts its bytes atomically. `limit` is the tenant's quota for the total, 0 for none. A deletion
 * is never refused. Refuses with storage_quota_exceeded, and as `TenantStore.write` does.
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

/** Returns the tenant's bytes of a kind, or the total. */
export async function storedBytes(store: TenantStore, kind: StoredKind | SummedKind | typeof total): Promise<number> {
  const [row] = await store.read(selectBytes, kind);
  return (row?.bytes as number | undefined) ?? 0;
}

/** Returns the rows that a kind counts in, always in this order, to avoid deadlocks. */
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

/** Adds to a row. The batch is refused if the row would exceed `max`; `isOverQuota` detects that. */
export function addBytesOp(
  store: TenantStore,
  row: StoredKind | SummedKind | typeof total,
  bytes: number,
  max: number,
): WriteOp {
  return store.op(add, [row, bytes, bytes, max, max], 1);
}

/** Sets the row of a summed kind. */
export function setBytesOp(store: TenantStore, row: SummedKind, bytes: number): WriteOp {
  return store.op(set, [row, bytes]);
}

/** True if a batch was refused because a row would exceed its limit. */
export function isOverQuota(error: unknown): boolean {
  return error instanceof SvcError && error.code === "conflict" && error.details.subject === add.name;
}
