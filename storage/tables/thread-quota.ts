import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { addBytesOp, isOverQuota, type SummedKind, setBytesOp, storedBytes } from "./stored-bytes.ts";

// The bytes of a tenant's threads and workspaces, under a quota of their own. The sums are up to a minute old, because
// a turn updates only its thread's row. Forks are counted at once, because each may be as long as a whole thread.

/** The setting that a refusal names. */
const quota = "SVC_TENANT_THREAD_BYTES";

const selectSums = systemSql(
  "thread_bytes_by_tenant",
  `SELECT tenant_id, SUM(bytes) AS bytes FROM (
     SELECT tenant_id, bytes FROM threads UNION ALL SELECT tenant_id, 0 AS bytes FROM stored_bytes WHERE kind = 'threads') AS all_threads
   GROUP BY tenant_id ORDER BY tenant_id`,
);

/** Returns the thread bytes of each tenant that has threads, or had some at the last summing. */
export async function threadBytesByTenant(store: Scope): Promise<Map<string, number>> {
  const rows = await store.readLong(selectSums);
  return new Map(rows.map(({ tenant_id, bytes }) => [tenant_id as string, Number(bytes)]));
}

/** Stores the bytes of the tenant's threads and workspaces. */
export function setUsedOps(store: TenantStore, used: Readonly<Record<SummedKind, number>>): WriteOp[] {
  return [setBytesOp(store, "threads", used.threads), setBytesOp(store, "workspaces", used.workspaces)];
}

/** Returns the bytes of the tenant's threads and workspaces as of the last summing. */
async function usedBytes(store: TenantStore): Promise<Readonly<Record<SummedKind, number>>> {
  const [threads, workspaces] = await Promise.all([storedBytes(store, "threads"), storedBytes(store, "workspaces")]);
  return { threads, workspaces };
}

/** Refuses with storage_quota_exceeded if the tenant's threads and workspaces would exceed the limit. */
export async function admitThreadBytes(store: TenantStore, bytes: number, limit: number): Promise<void> {
  const { threads, workspaces } = await usedBytes(store);
  if (threads + workspaces + bytes > limit) throw refusal(limit, threads + workspaces, bytes);
}

/**
 * Writes the last batch of a fork and counts its bytes atomically. Refuses as `admitThreadBytes` and
 * `TenantStore.write` do.
 */
export async function writeFork(
  store: TenantStore,
  bytes: number,
  limit: number,
  ops: readonly WriteOp[],
): Promise<void> {
  if (limit === 0) return void (await store.write(ops));
  const { workspaces } = await usedBytes(store);
  try {
    await store.write([...ops, addBytesOp(store, "threads", bytes, limit - workspaces)]);
  } catch (error) {
    if (!isOverQuota(error)) throw error;
    throw refusal(limit, (await storedBytes(store, "threads")) + workspaces, bytes);
  }
}

function refusal(limit_bytes: number, used_bytes: number, asked_bytes: number): SvcError {
  return new SvcError("storage_quota_exceeded", { detail: { quota, limit_bytes, used_bytes, asked_bytes } });
}
