import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { storedRows, writeStored } from "./stored-bytes.ts";

// Plans: JSON objects that agents and operators both write. Each change names the one that it was made from by its time, which grows
// with every change, so that nobody undoes what he has not seen. One whose time is over is not there, and its row goes later.

const planTable = table(
  "plans",
  {
    id: text,
    /** When it was changed last. */
    ts: integer,
    /** The agent that has made it; empty when none has. */
    manifest_id: text,
    /** The conversation that it was made in and goes with; empty outside of one. */
    thread_id: text,
    created_at: integer,
    expires_at: nullable(integer),
    /** JSON of an object. */
    plan: text,
    /** What it counts for. */
    bytes: integer,
  },
  ({ text }) => ({
    ...{ id: "row", ts: 5, manifest_id: "m", thread_id: "t1", created_at: 5, expires_at: 1000, bytes: 5 },
    plan: JSON.stringify({ text }),
  }),
);

/** A plan as it is stored. */
export type PlanRow = RowIn<typeof planTable>;

/** What somebody writes of a plan. */
export type PlanWritten = Omit<PlanRow, "ts" | "bytes">;

/** Bytes of a plan as JSON. */
export const planBytesMax = 64 * 1024;
/** A row counts for more than its text, so that small ones are not for nothing. */
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
/** Whoever changes a plan of the thread waits for who deletes them all, and the other way round. */
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

/** One page, newest first, with those whose time is over. Refuses with invalid_cursor. */
export const planPage = list(planTable, ["thread_id"], { indexes: { thread_id: "plans_by_thread" } }).page;

/** Whether a plan may be called so. */
export function isPlanId(id: string): boolean {
  return idPattern.test(id);
}

/** Whether a plan's time is over. */
export function isExpired({ expires_at }: Pick<PlanRow, "expires_at">, now: number): boolean {
  return expires_at !== null && expires_at <= now;
}

/** A plan of a tenant, also one whose time is over. */
export function storedPlan(store: TenantStore, id: string): Promise<PlanRow | undefined> {
  return selectPlan(store, id);
}

/** The plan of a conversation that was changed last. */
export async function newestPlan(store: TenantStore, threadId: string, now: number): Promise<PlanRow | undefined> {
  const [row] = await store.read(selectNewest, threadId, now);
  return row && planTable.decode(row);
}

/** Whether a conversation has so many plans, or more; those count whose time is over. */
export async function hasPlans(store: TenantStore, threadId: string, count: number): Promise<boolean> {
  return (await store.read(selectNth, threadId, count - 1)).length > 0;
}

/**
 * Writes a plan in the place of `before`, or a new one, with `ops` in its batch; null when somebody else has changed it since. `limit`
 * is the tenant's on what it stores. Refuses with storage_quota_exceeded.
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

/** Deletes a plan as it was read; false when somebody else has changed it since. */
export function removePlan(
  store: TenantStore,
  { id, ts, bytes }: Pick<PlanRow, "id" | "ts" | "bytes">,
): Promise<boolean> {
  const op = store.op(deletePlan, [id, ts], 1);
  return unlessChanged(() => writeStored(store, { kind: "plans", bytes: -bytes }, 0, [op]));
}

/**
 * Makes a change anew, from what is there then, for as long as it answers null because somebody else was faster. Null when that has
 * taken too long: of those who change a plan at the same time one is done at each try, so that a crowd has its turn in the end.
 */
export async function untilFirst<T>(env: Env, change: () => Promise<T | null>): Promise<T | null> {
  const until = env.monotonic() + contendedMsMax;
  for (let attempt = 1; ; attempt++) {
    const done = await change();
    if (done !== null || env.monotonic() >= until) return done;
    const pauseMs = env.random() * Math.min(pauseMsMax, pauseMsFirst * 2 ** attempt);
    await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
  }
}

/** How long a change is made again. */
const contendedMsMax = 10_000;
/** They come apart by chance, over a time that doubles. */
const pauseMsFirst = 2;
const pauseMsMax = 256;

/** Deletes the plans of a conversation, which then count for nothing. */
export function deletePlansOps(store: TenantStore, threadId: string): WriteOp[] {
  return [
    store.op(lockOfThread, [threadId]),
    ...storedRows("plans").map((kind) => store.op(giveBackOfThread, [threadId, kind])),
    store.op(deleteOfThread, [threadId]),
  ];
}

/** Deletes at most `limit` plans of all tenants whose time is over; answers how many there were. */
export async function deleteExpiredPlans(store: Store, now: number, limit: number): Promise<number> {
  const lapsed = await store.system.read(selectExpired, now, limit);
  let deleted = 0;
  for (const row of lapsed) {
    const { tenant_id, ...plan } = row as unknown as Pick<PlanRow, "id" | "ts" | "bytes"> & { tenant_id: string };
    // One that was changed meanwhile may have got more time.
    if (await removePlan(store.tenant(tenant_id), plan)) deleted++;
  }
  return deleted;
}

async function unlessChanged(write: () => Promise<unknown>): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
