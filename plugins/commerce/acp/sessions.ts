import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertInto, integer, json, oneOf, type RowIn, selectOne, table, text } from "../../../storage/store/table.ts";
import type { ShippingOption } from "../core/shipping-settings.ts";
import type { OrderItem } from "../orders/orders.ts";

// Checkout sessions as rows. `given` is what the caller sent, from which the session is computed anew at each change; `view` is the
// session as it was last answered.

/** The address of a delivery. */
export interface AcpAddress {
  readonly name: string;
  readonly line_one: string;
  readonly line_two?: string;
  readonly city: string;
  readonly state: string;
  readonly country: string;
  readonly postal_code: string;
}

/** The buyer. */
export interface AcpBuyer {
  readonly first_name?: string;
  readonly last_name?: string;
  readonly email: string;
  readonly phone_number?: string;
}

/** The order of a session whose completion has begun. Its figures are those that are charged. */
export interface LockedOrder {
  readonly items: readonly OrderItem[];
  readonly shipping: ShippingOption | null;
  readonly currency: string;
  readonly subtotal_cents: number;
  readonly shipping_cents: number;
  readonly tax_cents: number;
  readonly total_cents: number;
}

/** What the caller of a session has sent so far. */
export interface AcpGiven {
  readonly items: readonly { readonly id: string; readonly quantity: number }[];
  readonly buyer?: AcpBuyer;
  readonly fulfillment_address?: AcpAddress;
  readonly fulfillment_option_id?: string;
  /** Set by the server when a completion begins. */
  readonly locked?: LockedOrder;
}

/** The sessions. */
export const sessionTable = table(
  "commerce_acp_sessions",
  {
    id: text,
    ts: integer,
    expires_at: integer,
    status: oneOf("not_ready_for_payment", "ready_for_payment", "completed", "canceled"),
    /** Grows with each change, so that two changes at once do not overwrite each other. */
    revision: integer,
    /** Epoch milliseconds until which one request completes the session; 0 if none does. */
    claimed_until: integer,
    given: json<AcpGiven>(),
    view: json<Readonly<Record<string, unknown>>>(),
  },
  ({ text: name }) => ({
    ...{ id: "row", ts: 5, expires_at: 5, status: "canceled" as const, revision: 5, claimed_until: 0 },
    ...{ given: { items: [{ id: name, quantity: 1 }] }, view: { id: name } },
  }),
);

/** A stored session. */
export type SessionRow = RowIn<typeof sessionTable>;

const updateSession = tenantSql(
  "commerce_acp_session_update",
  `UPDATE commerce_acp_sessions SET status = ?, revision = revision + 1, claimed_until = 0, given = ?, view = ?
   WHERE tenant_id = :tenant AND id = ? AND revision = ? AND status NOT IN ('completed', 'canceled')`,
);
const claimSession = tenantSql(
  "commerce_acp_session_claim",
  `UPDATE commerce_acp_sessions SET claimed_until = ?, given = ?, view = ?, revision = revision + 1
   WHERE tenant_id = :tenant AND id = ? AND revision = ? AND claimed_until < ? AND status NOT IN ('completed', 'canceled')`,
);
const selectClaimed = systemSql(
  "commerce_acp_sessions_claimed",
  `SELECT tenant_id, ${sessionTable.columns} FROM commerce_acp_sessions
   WHERE claimed_until > 0 AND claimed_until < ? ORDER BY claimed_until LIMIT ?`,
);
const deleteExpired = systemSql(
  "commerce_acp_sessions_expire",
  "DELETE FROM commerce_acp_sessions WHERE expires_at < ? AND claimed_until = 0",
);

/** Returns a session. */
export const sessionById = selectOne(sessionTable, ["id"]);

/** Returns the operation that stores a new session. */
export const insertSessionOp: (store: TenantStore, row: SessionRow) => WriteOp = insertInto(sessionTable);

/** Returns the operation that stores a changed session and ends its claim. Its batch refuses with conflict if the session has changed since. */
export function updateSessionOp(
  store: TenantStore,
  { id, revision }: Pick<SessionRow, "id" | "revision">,
  { status, given, view }: Pick<SessionRow, "status" | "given" | "view">,
): WriteOp {
  return store.op(updateSession, [status, JSON.stringify(given), JSON.stringify(view), id, revision], 1);
}

/**
 * Claims a session for its completion, with the order that is charged. Refuses with conflict if the session has changed since, or another
 * request has claimed it.
 */
export async function claimSessionUntil(
  store: TenantStore,
  row: SessionRow,
  { given, view }: Pick<SessionRow, "given" | "view">,
  until: number,
  now: number,
): Promise<SessionRow> {
  const params = [until, JSON.stringify(given), JSON.stringify(view), row.id, row.revision, now] as const;
  await store.write([store.op(claimSession, params, 1)]);
  return { ...row, given, view, claimed_until: until, revision: row.revision + 1 };
}

/** Returns sessions whose completion was cut off, the oldest first. */
export async function cutOffSessions(
  { system }: Store,
  now: number,
  limit: number,
): Promise<{ readonly tenantId: string; readonly row: SessionRow }[]> {
  const rows = await system.read(selectClaimed, now, limit);
  return rows.map((row) => ({ tenantId: row.tenant_id as string, row: sessionTable.decode(row) }));
}

/** Deletes sessions after their end. */
export async function deleteExpiredSessions({ system }: Store, now: number): Promise<void> {
  await system.write([system.op(deleteExpired, [now])]);
}
