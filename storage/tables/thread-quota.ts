import { SvcError } from "../../bus/errors.ts";
import { systemSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { addBytesOp, isOverQuota, type SummedKind, setBytesOp, storedBytes } from "./stored-bytes.ts";

// What a tenant's threads and workspaces hold, beside what it stores on purpose. The sums are as of the last minute: a turn appends to
// its thread's row alone. Forks are counted at once, since each of them may be as long as a thread.

/** The setting that a refusal names. */
const quota = "SVC_TENANT_THREAD_BYTES";

const selectSums = systemSql(
  "thread_bytes_by_tenant",
  `SELECT tenant_id, SUM(bytes) AS bytes FROM (
     SELECT tenant_id, bytes FROM threads UNION ALL SELECT tenant_id, 0 AS bytes FROM stored_bytes WHERE kind = 'threads') AS all_threads
   GROUP BY tenant_id ORDER BY tenant_id`,
);

/** Bytes of the threads of each tenant that has some, or had some when they were summed last. */
export async function threadBytesByTenant(store: Scope): Promise<Map<string, number>> {
  const rows = await store.readLong(selectSums);
  return new Map(rows.map(({ tenant_id, bytes }) => [tenant_id as string, Number(bytes)]));
}

/** Writes what the tenant's threads and workspaces hold. */
export function setUsedOps(store: TenantStore, used: Readonly<Record<SummedKind, number>>): WriteOp[] {
  return [setBytesOp(store, "threads", used.threads), setBytesOp(store, "workspaces", used.workspaces)];
}

/** Bytes of the tenant's threads and workspaces, as they were summed last. */
async function usedBytes(store: TenantStore): Promise<Readonly<Record<SummedKind, number>>> {
  const [threads, workspaces] = await Promise.all([storedBytes(store, "threads"), storedBytes(store, "workspaces")]);
  return { threads, workspaces };
}

/** Refuses with storage_quota_exceeded what would make the tenant's threads and workspaces larger than they may be. */
export async function admitThreadBytes(store: TenantStore, bytes: number, limit: number): Promise<void> {
  const { threads, workspaces } = await usedBytes(store);
  if (threads + workspaces + bytes > limit) throw refusal(limit, threads + workspaces, bytes);
}

/** Makes the last batch of a fork and counts its bytes, both or neither. Refuses as `admitThreadBytes` and `TenantStore.write` do. */
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
