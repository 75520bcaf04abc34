import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { storedRows, writeStored } from "./stored-bytes.ts";
import { unlessChanged } from "./unless-changed.ts";

// Plans: JSON objects that agents and operators write. Each change names the version that it was made from. The version
// is a time that grows with every change, so that no change overwrites an unseen one. An expired plan counts as absent,
// and its row is deleted later.

const planTable = table(
  "plans",
  {
    id: text,
    /** Time of the last change, which is also its version. */
    ts: integer,
    /** The agent that created it; empty for an operator. */
    manifest_id: text,
    /** The thread that created it and whose deletion deletes it; empty without one. */
    thread_id: text,
    created_at: integer,
    expires_at: nullable(integer),
    /** A JSON object. */
    plan: text,
    /** Bytes that it counts against the quota. */
    bytes: integer,
  },
  ({ text }) => ({
    ...{ id: "row", ts: 5, manifest_id: "m", thread_id: "t1", created_at: 5, expires_at: 1000, bytes: 5 },
    plan: JSON.stringify({ text }),
  }),
);

/** A stored plan. */
export type PlanRow = RowIn<typeof planTable>;

/** The columns that the author of a plan sets. */
export type PlanWritten = Omit<PlanRow, "ts" | "bytes">;

/** Max bytes of a plan as JSON. */
export const planBytesMax = 64 * 1024;
/** Bytes that a row counts in addition to its text. */
const rowBytes = 256;
const idPattern = /^[A-Za-z0-9_-]{1,64}$/;

const insertPlan = insertInto(planTable);
const selectPlan = selectOne(planTable, ["id"]);
const updatePlan = tenantSql(
  "plan_update",
  `UPDATE plans SET ts = ?, manifest_id = ?, thread_id = ?, created_at = ?, expires_at = ?, plan = ?, bytes = ?
   WHERE tenant_id = :tenant AND id = ? AND ts = ?`,
);
const deletePlan = tenantSql("plan_delete", "DELETE FROM plans WHERE tenant_id = :tenant AND id = ? AND ts = ?");
const selectNewest = tenantSql(
  "plans_newest",
  `SELECT ${planTable.columns} FROM plans
   WHERE tenant_id = :tenant AND thread_id = ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY ts DESC, id DESC LIMIT 1`,
);
const selectNth = tenantSql(
  "plans_nth",
  "SELECT id FROM plans WHERE tenant_id = :tenant AND thread_id = ? ORDER BY ts, id LIMIT 1 OFFSET ?",
);
/** Locks the plans of a thread, so that a change and the deletion of all plans wait for each other. */
const lockOfThread = tenantSql("plans_lock", "UPDATE plans SET ts = ts WHERE tenant_id = :tenant AND thread_id = ?");
const giveBackOfThread = tenantSql(
  "plans_give_back",
  `UPDATE stored_bytes SET bytes = bytes -
     (SELECT COALESCE(CAST(SUM(p.bytes) AS BIGINT), 0) FROM plans p WHERE p.tenant_id = :tenant AND p.thread_id = ?)
   WHERE tenant_id = :tenant AND kind = ?`,
);
const deleteOfThread = tenantSql("plans_delete", "DELETE FROM plans WHERE tenant_id = :tenant AND thread_id = ?");
const selectExpired = systemSql(
  "plans_lapsed",
  "SELECT tenant_id, id, ts, bytes FROM plans WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
);

/** Returns one page, newest first, including expired plans. Refuses with invalid_cursor. */
export const planPage = list(planTable, ["thread_id"], { indexes: { thread_id: "plans_by_thread" } }).page;

/** True if the text is a valid plan id. */
export function isPlanId(id: string): boolean {
  return idPattern.test(id);
}

/** True if the plan has expired. */
export function isExpired({ expires_at }: Pick<PlanRow, "expires_at">, now: number): boolean {
  return expires_at !== null && expires_at <= now;
}

/** Returns a plan of a tenant, even if it has expired. */
export function storedPlan(store: TenantStore, id: string): Promise<PlanRow | undefined> {
  return selectPlan(store, id);
}

/** Returns the most recently changed plan of a thread. */
export async function newestPlan(store: TenantStore, threadId: string, now: number): Promise<PlanRow | undefined> {
  const [row] = await store.read(selectNewest, threadId, now);
  return row && planTable.decode(row);
}

/** True if a thread has at least `count` plans, including expired ones. */
export async function hasPlans(store: TenantStore, threadId: string, count: number): Promise<boolean> {
  return (await store.read(selectNth, threadId, count - 1)).length > 0;
}

/**
 * Replaces the plan `before`, or inserts a new one, with `ops` in the same batch. Returns null if another writer has
 * changed it since. `limit` is the tenant's storage quota. Refuses with storage_quota_exceeded.
 */
export async function writePlan(
  store: TenantStore,
  before: PlanRow | undefined,
  written: PlanWritten,
  { now, limit, ops = [] }: { now: number; limit: number; ops?: readonly WriteOp[] },
): Promise<PlanRow | null> {
  const ts = before === undefined ? now : Math.max(now, before.ts + 1);
  const row: PlanRow = { ...written, ts, bytes: Buffer.byteLength(written.plan) + rowBytes };
  const { manifest_id, thread_id, created_at, expires_at, plan, bytes, id } = row;
  const op =
    before === undefined
      ? insertPlan(store, row)
      : store.op(updatePlan, [ts, manifest_id, thread_id, created_at, expires_at, plan, bytes, id, before.ts], 1);
  const change = { kind: "plans", bytes: bytes - (before?.bytes ?? 0) } as const;
  return (await unlessChanged(() => writeStored(store, change, limit, [op, ...ops]))) ? row : null;
}

/** Deletes a plan as it was read. Returns false if another writer has changed it since. */
export function removePlan(
  store: TenantStore,
  { id, ts, bytes }: Pick<PlanRow, "id" | "ts" | "bytes">,
): Promise<boolean> {
  const op = store.op(deletePlan, [id, ts], 1);
  return unlessChanged(() => writeStored(store, { kind: "plans", bytes: -bytes }, 0, [op]));
}

/** Deletes the plans of a thread and subtracts their bytes from the quota. */
export function deletePlansOps(store: TenantStore, threadId: string): WriteOp[] {
  return [
    store.op(lockOfThread, [threadId]),
    ...storedRows("plans").map((kind) => store.op(giveBackOfThread, [threadId, kind])),
    store.op(deleteOfThread, [threadId]),
  ];
}

/** Deletes up to `limit` expired plans of all tenants. Returns their number. */
export async function deleteExpiredPlans(store: Store, now: number, limit: number): Promise<number> {
  const lapsed = await store.system.read(selectExpired, now, limit);
  let deleted = 0;
  for (const row of lapsed) {
    const { tenant_id, ...plan } = row as unknown as Pick<PlanRow, "id" | "ts" | "bytes"> & { tenant_id: string };
    // A concurrent change may have extended the plan's lifetime.
    if (await removePlan(store.tenant(tenant_id), plan)) deleted++;
  }
  return deleted;
}
