import type { Principal } from "../../bus/protocol/principal.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { lockTenantOp } from "./tenant-lock.ts";

// The browsers that get push notifications (decisions 233 and 256). Times are those of the store's clock.

const pushTable = table("push_subscriptions", {
  /** A digest of the endpoint. */
  id: text,
  /** A secret URL: its holder can send to the browser. */
  endpoint: text,
  p256dh: text,
  auth: text,
  /** Who subscribed, without the tenant. */
  principal: json<Omit<Principal, "tenant_id">>(),
  created_at: integer,
  /** Time of the last subscribe. */
  seen_at: integer,
  last_ok_at: nullable(integer),
  /** Failed sends since the last good one. */
  failures: integer,
});

/** A stored subscription. */
export type PushSubscriptionRow = RowIn<typeof pushTable>;

/** Max subscriptions of a tenant. */
const subscriptionsMax = 200;
/** Failed sends in a row after which a subscription is dropped. */
const failuresMax = 5;

const { columns } = pushTable;
const subscribe = tenantSql(
  "push_subscribe",
  `INSERT INTO push_subscriptions (tenant_id, ${columns})
   SELECT :tenant, ?, ?, ?, ?, ?, :now, :now, NULL, 0
   WHERE EXISTS (SELECT 1 FROM push_subscriptions WHERE tenant_id = :tenant AND id = ?)
     OR (SELECT COUNT(*) FROM push_subscriptions WHERE tenant_id = :tenant) < ${subscriptionsMax}
   ON CONFLICT (tenant_id, id) DO UPDATE SET p256dh = excluded.p256dh, auth = excluded.auth,
     principal = excluded.principal, seen_at = excluded.seen_at, failures = 0
   RETURNING created_at`,
);
const unsubscribe = tenantSql(
  "push_unsubscribe",
  "DELETE FROM push_subscriptions WHERE tenant_id = :tenant AND id = ? RETURNING id",
);
const selectAll = tenantSql(
  "push_subscriptions_of",
  `SELECT ${columns} FROM push_subscriptions WHERE tenant_id = :tenant ORDER BY id LIMIT ${subscriptionsMax}`,
);
const noteSent = tenantSql(
  "push_sent",
  "UPDATE push_subscriptions SET failures = 0, last_ok_at = :now WHERE tenant_id = :tenant AND id = ?",
);
const noteFailed = tenantSql(
  "push_failed",
  "UPDATE push_subscriptions SET failures = failures + 1 WHERE tenant_id = :tenant AND id = ?",
);
const dropFailing = tenantSql(
  "push_drop_failing",
  `DELETE FROM push_subscriptions WHERE tenant_id = :tenant AND id = ? AND failures >= ${failuresMax}`,
);

/** Returns one subscription. */
export const pushSubscriptionById = selectOne(pushTable, ["id"]);

/** Returns the subscriptions of a tenant. */
export async function pushSubscriptionsOf(store: TenantStore): Promise<PushSubscriptionRow[]> {
  return (await store.read(selectAll)).map((row) => pushTable.decode(row));
}

/**
 * Stores a subscription; one with the same id gets its keys and its principal, and counts no failure any more. Returns the time of its
 * creation, or null if the tenant has too many.
 */
export async function subscribePush(
  store: TenantStore,
  {
    id,
    endpoint,
    p256dh,
    auth,
    principal,
  }: Omit<PushSubscriptionRow, "created_at" | "seen_at" | "last_ok_at" | "failures">,
  timeoutMs: number,
): Promise<number | null> {
  const params = [id, endpoint, p256dh, auth, JSON.stringify(principal), id];
  const ops = [lockTenantOp(store, pushTable.name), store.op(subscribe, params)];
  const [, [row] = []] = await store.write(ops, timeoutMs);
  return row === undefined ? null : (row.created_at as number);
}

/** Deletes a subscription. Its batch returns a row if there was one. */
export function unsubscribePushOp(store: TenantStore, id: string): WriteOp {
  return store.op(unsubscribe, [id]);
}

/** Counts a send that the push service took. */
export function notePushSentOp(store: TenantStore, id: string): WriteOp {
  return store.op(noteSent, [id]);
}

/** Counts a failed send, and drops the subscription after five in a row. */
export function notePushFailedOps(store: TenantStore, id: string): WriteOp[] {
  return [store.op(noteFailed, [id]), store.op(dropFailing, [id])];
}
