import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";

// The outbox: what is to be told to an endpoint is a row from the batch in which it became true, so that nothing is told that the log
// does not say, and nothing that it says is left untold. Its id, type and body never change; the body goes when the delivery is over.
//
// A row is sent by whoever has claimed it. A claim raises the row's number and puts the row off until the claim is over; what came of
// the attempt is written under that number only, so that who was taken for gone writes nothing. Times are the store's.

const deliveryTable = table("deliveries", {
  /** What receivers tell deliveries apart by; ends with the endpoint's id. */
  id: text,
  endpoint_id: text,
  type: text,
  /** The bytes that every attempt sends; empty when it is over. */
  body: text,
  created_at: integer,
  state: oneOf("pending", "delivered", "dead"),
  /** Those that have failed, and the one that was taken. */
  attempts: integer,
  /** Not before this. */
  due_at: integer,
  /** How often it was claimed. */
  claim: integer,
  /** The worker that sends it. */
  claimed_by: nullable(text),
  ended_at: nullable(integer),
});

/** A delivery as it is stored. */
export type DeliveryRow = RowIn<typeof deliveryTable>;
/** How far a delivery is. */
export type DeliveryState = DeliveryRow["state"];

/** Deliveries of one tenant to one endpoint. */
export interface DueEndpoint {
  readonly tenant_id: string;
  readonly endpoint_id: string;
}

/** Rows that are given up in one batch, so that nobody waits long behind it. */
const batchRows = 500;

const { columns } = deliveryTable;
const ofEndpoint = "tenant_id = :tenant AND endpoint_id = ? AND state = 'pending'";
const isClaimed = "tenant_id = :tenant AND id = ? AND state = 'pending' AND claim = ?";

const insertDelivery = tenantSql(
  "delivery_insert",
  `INSERT INTO deliveries (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, :now, 'pending', 0, :now, 0, NULL, NULL)
   ON CONFLICT DO NOTHING`,
);
// Asked again outside, for another process may have claimed a row since the inner query has seen it.
const claimDue = tenantSql(
  "deliveries_claim",
  `UPDATE deliveries SET claimed_by = ?, claim = claim + 1, due_at = :now + ?
   WHERE ${ofEndpoint} AND due_at <= :now AND id IN
     (SELECT id FROM deliveries WHERE ${ofEndpoint} AND due_at <= :now ORDER BY due_at LIMIT ?)
   RETURNING ${columns}`,
);
const endDelivery = tenantSql(
  "delivery_end",
  `UPDATE deliveries SET state = ?, body = '', attempts = attempts + 1, claimed_by = NULL, ended_at = :now
   WHERE ${isClaimed}`,
);
const putOffDelivery = tenantSql(
  "delivery_put_off",
  `UPDATE deliveries SET attempts = attempts + 1, claimed_by = NULL, due_at = :now + ? WHERE ${isClaimed}`,
);
const giveUpEndpoint = tenantSql(
  "deliveries_give_up",
  `UPDATE deliveries SET state = 'dead', body = '', claimed_by = NULL, ended_at = :now
   WHERE ${ofEndpoint} AND (claimed_by IS NULL OR due_at <= :now) AND id IN
     (SELECT id FROM deliveries WHERE ${ofEndpoint} AND (claimed_by IS NULL OR due_at <= :now) ORDER BY due_at LIMIT ?)
   RETURNING type`,
);
const selectNextDue = tenantSql(
  "delivery_next_due",
  `SELECT due_at, :now AS now FROM deliveries WHERE ${ofEndpoint} AND claimed_by IS NULL ORDER BY due_at LIMIT 1`,
);
const selectStates = tenantSql(
  "deliveries_of_source",
  "SELECT endpoint_id, state FROM deliveries WHERE tenant_id = :tenant AND id > ? AND id < ? ORDER BY id",
);
const selectEndpoints = systemSql(
  "delivery_lanes",
  `SELECT tenant_id, endpoint_id FROM deliveries
   WHERE state = 'pending' AND due_at <= :now + ? AND (tenant_id, endpoint_id) > (?, ?)
   GROUP BY tenant_id, endpoint_id ORDER BY tenant_id, endpoint_id LIMIT ?`,
);
const selectOldest = systemSql(
  "delivery_oldest",
  "SELECT created_at, :now AS now FROM deliveries WHERE state = 'pending' ORDER BY created_at LIMIT 1",
);
const releaseOfExpired = systemSql(
  "deliveries_release_of_lapsed_hosts",
  `UPDATE deliveries SET claimed_by = NULL, due_at = :now WHERE claimed_by IS NOT NULL AND ${ownerIsGone("claimed_by")}`,
);
const releaseOfWorker = systemSql(
  "deliveries_release_of_worker",
  "UPDATE deliveries SET claimed_by = NULL, due_at = :now WHERE claimed_by = ?",
);
const deleteEnded = systemSql(
  "deliveries_delete_ended",
  `DELETE FROM deliveries WHERE (tenant_id, id) IN
     (SELECT tenant_id, id FROM deliveries WHERE ended_at <= ? ORDER BY ended_at LIMIT ?)
   RETURNING id`,
);

/**
 * The deliveries of something that has become true, for the batch that says so: one to each endpoint, under `<source>_<endpoint>`, all
 * with the same body. Written again they are the first ones.
 */
export function outboxOps(
  store: TenantStore,
  { source, type, body, endpoints }: { source: string; type: string; body: string; endpoints: readonly string[] },
): WriteOp[] {
  return endpoints.map((endpoint) => store.op(insertDelivery, [`${source}_${endpoint}`, endpoint, type, body]));
}

/** Takes what is due, for so long; at most `limit`. */
export async function claimDeliveries(
  store: TenantStore,
  endpointId: string,
  { owner, forMs, limit }: { owner: string; forMs: number; limit: number },
): Promise<DeliveryRow[]> {
  const params = [owner, forMs, endpointId, endpointId, limit];
  const [rows] = await store.write([store.op(claimDue, params)]);
  return (rows ?? []).map((row) => deliveryTable.decode(row));
}

/** A delivery is over. Refuses with conflict when the claim is not good any more. */
export function endDeliveryOp(
  store: TenantStore,
  { id, claim }: Pick<DeliveryRow, "id" | "claim">,
  state: "delivered" | "dead",
): WriteOp {
  return store.op(endDelivery, [state, id, claim], 1);
}

/** A delivery is to be tried again, so much later. Refuses with conflict when the claim is not good any more. */
export function putOffDeliveryOp(
  store: TenantStore,
  { id, claim }: Pick<DeliveryRow, "id" | "claim">,
  ms: number,
): WriteOp {
  return store.op(putOffDelivery, [ms, id, claim], 1);
}

/** Ends some of what waits for an endpoint that is not there for the tenant any more. Answers their types; none when all are ended. */
export async function giveUpSome(store: TenantStore, endpointId: string): Promise<string[]> {
  const [rows] = await store.write([store.op(giveUpEndpoint, [endpointId, endpointId, batchRows])]);
  return (rows ?? []).map((row) => row.type as string);
}

/** In how many milliseconds the next one is due that nobody has; null for none. */
export async function nextDueMs(store: TenantStore, endpointId: string): Promise<number | null> {
  const [row] = await store.read(selectNextDue, endpointId);
  return row ? Math.max(0, (row.due_at as number) - (row.now as number)) : null;
}

/** How far the deliveries of a source are, by endpoint. */
export async function deliveryStates(store: TenantStore, source: string): Promise<Record<string, DeliveryState>> {
  // Behind the source stands `_`, and the character after it ends the range.
  const rows = await store.read(selectStates, `${source}_`, `${source}\``);
  return Object.fromEntries(rows.map((row) => [row.endpoint_id as string, row.state as DeliveryState]));
}

/** Who has something that is due within `aheadMs`, in pages. */
export async function endpointsDue(
  store: Scope,
  aheadMs: number,
  after: DueEndpoint,
  limit: number,
): Promise<DueEndpoint[]> {
  const rows = await store.readLong(selectEndpoints, aheadMs, after.tenant_id, after.endpoint_id, limit);
  return rows as unknown as DueEndpoint[];
}

/** How long the oldest delivery is on its way, in milliseconds; 0 when there is none. */
export async function oldestDeliveryMs(store: Scope): Promise<number> {
  const [row] = await store.read(selectOldest);
  return row ? Math.max(0, (row.now as number) - (row.created_at as number)) : 0;
}

/** What somebody who is gone was sending is due at once. */
export async function releaseDeliveries(store: Scope, gone: Gone): Promise<void> {
  const release =
    "worker" in gone ? store.op(releaseOfWorker, [gone.worker]) : store.op(releaseOfExpired, othersThan(gone.hostsBut));
  await store.write([release]);
}

/** Deletes at most `limit` deliveries that were over at or before a time; answers how many. */
export async function deleteEndedDeliveries(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteEnded, [until, limit])]);
  return rows?.length ?? 0;
}
