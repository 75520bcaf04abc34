import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { integer, json, nullable, type RowIn, selectOne, table, text } from "../../../storage/store/table.ts";

/** The shopper of a thread: its origin, its address, and the state of the cart. */
export const sessionTable = table(
  "commerce_sessions",
  {
    thread_id: text,
    ts: integer,
    channel: text,
    utm: json<Readonly<Record<string, string>>>(),
    /** Address by which the shopper identified itself; for attribution only. */
    buyer_subject: nullable(text),
    /** Sequence number of the newest cart record. */
    cart_version: integer,
    cart_at: integer,
    /** Lines of the cart; 0 for an empty one. */
    cart_items: integer,
    cart_total_cents: integer,
    currency: text,
  },
  ({ text: thread_id }) => ({
    ...{ thread_id, ts: 5, channel: "chat", utm: { source: thread_id }, buyer_subject: thread_id, cart_version: 5 },
    ...{ cart_at: 5, cart_items: 5, cart_total_cents: 5, currency: "usd" },
  }),
);

/** The stored facts of a thread. */
export type SessionRow = RowIn<typeof sessionTable>;

const columns = `INSERT INTO commerce_sessions (tenant_id, ${sessionTable.columns})`;
const noteOrigin = tenantSql(
  "commerce_session_note_origin",
  `${columns} VALUES (:tenant, ?, ?, ?, ?, NULL, -1, 0, 0, 0, '')
   ON CONFLICT (tenant_id, thread_id) DO UPDATE SET channel = excluded.channel, utm = excluded.utm`,
);
const noteBuyer = tenantSql(
  "commerce_session_note_buyer",
  `${columns} VALUES (:tenant, ?, ?, 'chat', '{}', ?, -1, 0, 0, 0, '')
   ON CONFLICT (tenant_id, thread_id) DO UPDATE SET buyer_subject = excluded.buyer_subject`,
);
const noteCart = tenantSql(
  "commerce_session_note_cart",
  `${columns} VALUES (:tenant, ?, ?, 'chat', '{}', NULL, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, thread_id) DO UPDATE SET cart_version = excluded.cart_version, cart_at = excluded.cart_at,
     cart_items = excluded.cart_items, cart_total_cents = excluded.cart_total_cents, currency = excluded.currency
   WHERE commerce_sessions.cart_version < excluded.cart_version`,
);

const deleteIdle = systemSql(
  "commerce_sessions_delete_idle",
  "DELETE FROM commerce_sessions WHERE ts < ? AND cart_items = 0 AND buyer_subject IS NULL",
);

/** Deletes the facts of threads without a cart and without an address that began before a time. */
export async function deleteIdleSessions({ system }: Store, before: number): Promise<void> {
  await system.write([system.op(deleteIdle, [before])]);
}

/** Returns the facts of a thread, by its full id. */
export const sessionOf = selectOne(sessionTable, ["thread_id"]);

/** Returns the operation that stores where a shopper came from. */
export function noteOriginOp(
  store: TenantStore,
  thread_id: string,
  {
    channel,
    utm,
    now,
  }: { readonly channel: string; readonly utm: Readonly<Record<string, string>>; readonly now: number },
): WriteOp {
  return store.op(noteOrigin, [thread_id, now, channel, JSON.stringify(utm)]);
}

/** Returns the operation that stores the address of a shopper. */
export function noteBuyerOp(store: TenantStore, thread_id: string, subject: string, now: number): WriteOp {
  return store.op(noteBuyer, [thread_id, now, subject]);
}

/** Returns the operation that stores the state of a cart, unless a newer one is stored. */
export function noteCartOp(
  store: TenantStore,
  {
    thread_id,
    cart_version,
    cart_at,
    cart_items,
    cart_total_cents,
    currency,
  }: Omit<SessionRow, "ts" | "channel" | "utm" | "buyer_subject">,
): WriteOp {
  return store.op(noteCart, [thread_id, cart_at, cart_version, cart_at, cart_items, cart_total_cents, currency]);
}
