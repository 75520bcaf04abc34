import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";

// Counts of the facts that agents stored since they were last consolidated: for each manifest, the shared facts, and those
// of each owner. A pool is due when it has the number of facts that its manifest sets, but after a failure or a freeze only
// after a delay.

/** The facts that are consolidated together. `owner` is empty for the shared ones. */
export interface MemoryPool {
  readonly manifest_id: string;
  readonly owner: string;
}

/** A due pool, with its number of new facts, and of failures since it was last consolidated. */
export interface DuePool extends MemoryPool {
  readonly new_facts: number;
  readonly failures: number;
  /** Number of new facts that makes it due. */
  readonly after_facts: number;
}

const addFacts = tenantSql(
  "memory_pool_add",
  `INSERT INTO memory_pools (tenant_id, manifest_id, owner, new_facts, after_facts) VALUES (:tenant, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, manifest_id, owner)
   DO UPDATE SET new_facts = memory_pools.new_facts + excluded.new_facts, after_facts = excluded.after_facts`,
);
const settle = tenantSql(
  "memory_pool_settle",
  `UPDATE memory_pools SET new_facts = new_facts - ?, after_facts = ?, due_at = 0, failures = 0
   WHERE tenant_id = :tenant AND manifest_id = ? AND owner = ? AND new_facts >= ?`,
);
const putOff = tenantSql(
  "memory_pool_put_off",
  `UPDATE memory_pools SET due_at = :now + ?, failures = failures + ?
   WHERE tenant_id = :tenant AND manifest_id = ? AND owner = ?`,
);
const isDue = "after_facts > 0 AND new_facts >= after_facts AND due_at <= :now";
const selectDue = tenantSql(
  "memory_pools_due",
  `SELECT manifest_id, owner, new_facts, failures, after_facts FROM memory_pools
   WHERE tenant_id = :tenant AND ${isDue} ORDER BY due_at LIMIT ?`,
);
const selectTenants = systemSql(
  "memory_pools_due_tenants",
  `SELECT tenant_id FROM memory_pools WHERE ${isDue} AND tenant_id > ? GROUP BY tenant_id ORDER BY tenant_id LIMIT ?`,
);

/** Counts new facts. `afterFacts` is the number that makes the pool due; 0 for never. */
export function addFactsOp(
  store: TenantStore,
  { manifest_id, owner }: MemoryPool,
  facts: number,
  afterFacts: number,
): WriteOp {
  return store.op(addFacts, [manifest_id, owner, facts, afterFacts]);
}

/** Records that `facts` of the new facts were consolidated. */
export function settlePoolOp(
  store: TenantStore,
  { manifest_id, owner }: MemoryPool,
  facts: number,
  afterFacts: number,
): WriteOp {
  return store.op(settle, [facts, afterFacts, manifest_id, owner, facts]);
}

/** Makes a pool due only after a delay. `isFailure` counts a failure. */
export function putOffPoolOp(
  store: TenantStore,
  { manifest_id, owner }: MemoryPool,
  ms: number,
  isFailure: boolean,
): WriteOp {
  return store.op(putOff, [ms, isFailure ? 1 : 0, manifest_id, owner]);
}

/** Returns up to `limit` due pools of a tenant; those that were put off come last. */
export async function duePools(store: TenantStore, limit: number): Promise<DuePool[]> {
  return (await store.read(selectDue, limit)) as unknown as DuePool[];
}

/** Returns tenants with due pools, in pages. */
export async function tenantsWithDuePools(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectTenants, after, limit)).map((row) => row.tenant_id as string);
}
