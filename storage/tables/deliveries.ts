import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, oneOf, type RowIn, table, text } from "../store/table.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";

// The outbox. A webhook is a row that is inserted in the batch of the fact it reports. So no webhook reports a fact
// that is not stored, and every stored fact is reported. Its id, type and body never change; the body is cleared when
// the delivery ends.
//
// A worker sends a row after claiming it. A claim increments the claim number of the row and postpones it until the
// claim expires. The outcome is written only under the same claim number, so a worker that lost its claim writes
// nothing. Times are those of the store's clock.

const deliveryTable = table("deliveries", {
  /** The id by which receivers recognize repeated deliveries; ends with the endpoint's id. */
  id: text,
  endpoint_id: text,
  type: text,
  /** The bytes that every attempt sends; empty after the end. */
  body: text,
  created_at: integer,
  state: oneOf("pending", "delivered", "dead"),
  /** Number of attempts, including the successful one. */
  attempts: integer,
  /** Earliest time of the next attempt. */
  due_at: integer,
  /** Number of claims so far. */
  claim: integer,
  /** The worker that sends it. */
  claimed_by: nullable(text),
  ended_at: nullable(integer),
});

/** A stored delivery. */
export type DeliveryRow = RowIn<typeof deliveryTable>;
/** State of a delivery. */
export type DeliveryState = DeliveryRow["state"];

/** The deliveries of one tenant to one endpoint. */
export interface DueEndpoint {
  readonly tenant_id: string;
  readonly endpoint_id: string;
}

/** Max rows that one batch ends, so that other batches do not wait long. */
const batchRows = 500;

const { columns } = deliveryTable;
const ofEndpoint = "tenant_id = :tenant AND endpoint_id = ? AND state = 'pending'";
const isClaimed = "tenant_id = :tenant AND id = ? AND state = 'pending' AND claim = ?";

const insertDelivery = tenantSql(
  "delivery_insert",
  `INSERT INTO deliveries (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, :now, 'pending', 0, :now, 0, NULL, NULL)
   ON CONFLICT DO NOTHING`,
);
// The outer conditions repeat the inner ones, because another process may claim a row between the two.
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
 * Returns operations for the batch that stores a fact: one delivery per endpoint, with the id `<source>_<endpoint>` and
 * the same body. Repeated operations have no effect.
 */
export function outboxOps(
  store: TenantStore,
  { source, type, body, endpoints }: { source: string; type: string; body: string; endpoints: readonly string[] },
): WriteOp[] {
  return endpoints.map((endpoint) => store.op(insertDelivery, [`${source}_${endpoint}`, endpoint, type, body]));
}

/** Returns the operation for one delivery with an id of its own. Repeated, it has no effect. */
export function deliveryOp(
  store: TenantStore,
  { id, endpoint, type, body }: { id: string; endpoint: string; type: string; body: string },
): WriteOp {
  return store.op(insertDelivery, [id, endpoint, type, body]);
}

/** Claims up to `limit` due deliveries for `forMs` milliseconds. */
export async function claimDeliveries(
  store: TenantStore,
  endpointId: string,
  { owner, forMs, limit }: { owner: string; forMs: number; limit: number },
): Promise<DeliveryRow[]> {
  const params = [owner, forMs, endpointId, endpointId, limit];
  const [rows] = await store.write([store.op(claimDue, params)]);
  return (rows ?? []).map((row) => deliveryTable.decode(row));
}

/** Ends a delivery. Refuses with conflict if the claim is no longer valid. */
export function endDeliveryOp(
  store: TenantStore,
  { id, claim }: Pick<DeliveryRow, "id" | "claim">,
  state: "delivered" | "dead",
): WriteOp {
  return store.op(endDelivery, [state, id, claim], 1);
}

/** Postpones a delivery after a failed attempt. Refuses with conflict if the claim is no longer valid. */
export function putOffDeliveryOp(
  store: TenantStore,
  { id, claim }: Pick<DeliveryRow, "id" | "claim">,
  ms: number,
): WriteOp {
  return store.op(putOffDelivery, [ms, id, claim], 1);
}

/** Ends some deliveries of an endpoint that the tenant no longer has. Returns their types; none when all have ended. */
export async function giveUpSome(store: TenantStore, endpointId: string): Promise<string[]> {
  const [rows] = await store.write([store.op(giveUpEndpoint, [endpointId, endpointId, batchRows])]);
  return (rows ?? []).map((row) => row.type as string);
}

/** Returns the milliseconds until the next unclaimed delivery is due; null if there is none. */
export async function nextDueMs(store: TenantStore, endpointId: string): Promise<number | null> {
  const [row] = await store.read(selectNextDue, endpointId);
  return row ? Math.max(0, (row.due_at as number) - (row.now as number)) : null;
}

/** Returns the states of a source's deliveries, by endpoint. */
export async function deliveryStates(store: TenantStore, source: string): Promise<Record<string, DeliveryState>> {
  // The id continues with `_` after the source; the backquote is the next character and ends the range.
  const rows = await store.read(selectStates, `${source}_`, `${source}\``);
  return Object.fromEntries(rows.map((row) => [row.endpoint_id as string, row.state as DeliveryState]));
}

/** Returns tenants and endpoints with deliveries that are due within `aheadMs`, in pages. */
export async function endpointsDue(
  store: Scope,
  aheadMs: number,
  after: DueEndpoint,
  limit: number,
): Promise<DueEndpoint[]> {
  const rows = await store.readLong(selectEndpoints, aheadMs, after.tenant_id, after.endpoint_id, limit);
  return rows as unknown as DueEndpoint[];
}

/** Returns the age of the oldest pending delivery in milliseconds; 0 if there is none. */
export async function oldestDeliveryMs(store: Scope): Promise<number> {
  const [row] = await store.read(selectOldest);
  return row ? Math.max(0, (row.now as number) - (row.created_at as number)) : 0;
}

/** Releases the claims of a dead host or worker, so that its deliveries are due at once. */
export async function releaseDeliveries(store: Scope, gone: Gone): Promise<void> {
  const release =
    "worker" in gone ? store.op(releaseOfWorker, [gone.worker]) : store.op(releaseOfExpired, othersThan(gone.hostsBut));
  await store.write([release]);
}

/** Deletes up to `limit` deliveries that ended at or before `until`. Returns their number. */
export async function deleteEndedDeliveries(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteEnded, [until, limit])]);
  return rows?.length ?? 0;
}
