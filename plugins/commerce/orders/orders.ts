import { list } from "../../../storage/store/list.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  selectOne,
  table,
  text,
} from "../../../storage/store/table.ts";
import type { ShippingOption } from "../core/shipping-settings.ts";

/** A line of an order, with the price at which it was sold. */
export interface OrderItem {
  readonly product_id: string;
  readonly title: string;
  readonly qty: number;
  readonly price_cents: number;
}

/** Orders of a tenant. */
export const orderTable = table(
  "commerce_orders",
  {
    id: text,
    ts: integer,
    status: oneOf("pending", "paid", "fulfilled", "cancelled"),
    channel: text,
    /** Full id of the thread; empty without one. */
    thread_id: text,
    /** Sequence number of the cart record that was ordered; -1 without one. */
    cart_version: integer,
    account_id: nullable(text),
    buyer_subject: nullable(text),
    email: nullable(text),
    manifest_id: text,
    consent_id: nullable(text),
    items: json<readonly OrderItem[]>(),
    subtotal_cents: integer,
    discount_cents: integer,
    shipping_cents: integer,
    tax_cents: integer,
    total_cents: integer,
    currency: text,
    shipping: nullable(json<ShippingOption>()),
    session_id: nullable(text),
    checkout_url: nullable(text),
    payment_ref: nullable(text),
    refunded_cents: integer,
    /** 1 if a paid order took more units than the stock had. */
    oversold: integer,
    /** 1 if the lines of the order have left the cart. */
    cleared: integer,
    paid_at: nullable(integer),
    updated_at: integer,
  },
  ({ text: email }) => ({
    ...{ id: "row", ts: 5, status: "pending" as const, channel: "chat", thread_id: email, cart_version: 5 },
    ...{ account_id: email, buyer_subject: email, email, manifest_id: email, consent_id: email, items: [] },
    ...{ subtotal_cents: 5, discount_cents: 5, shipping_cents: 5, tax_cents: 5, total_cents: 5, currency: "usd" },
    ...{ shipping: null, session_id: email, checkout_url: email, payment_ref: email, refunded_cents: 5, oversold: 5 },
    ...{ cleared: 5, paid_at: 5, updated_at: 5 },
  }),
);

/** A stored order. */
export type OrderRow = RowIn<typeof orderTable>;

/** Events of the payment provider that were applied, by their ids. */
export const paymentEventTable = table(
  "commerce_payment_events",
  { id: text, ts: integer, type: text, order_id: text },
  ({ text: type }) => ({ id: "row", ts: 5, type, order_id: type }),
);

/** Which chat an order came from, one row for each paid order. */
export const attributionTable = table(
  "commerce_attribution",
  {
    order_id: text,
    channel: text,
    manifest_id: text,
    thread_id: text,
    buyer_subject: nullable(text),
    consent_id: nullable(text),
    utm: json<Readonly<Record<string, string>>>(),
    revenue_cents: integer,
    currency: text,
    created_at: integer,
  },
  ({ text: buyer_subject }) => ({
    ...{ order_id: "row", channel: "chat", manifest_id: buyer_subject, thread_id: buyer_subject, buyer_subject },
    ...{ consent_id: buyer_subject, utm: { source: buyer_subject }, revenue_cents: 5, currency: "usd", created_at: 5 },
  }),
);

const { columns } = orderTable;
const insertOnce = insertInto(orderTable, "ledger");
const setSession = tenantSql(
  "commerce_order_set_session",
  `UPDATE commerce_orders SET session_id = ?, checkout_url = ?, updated_at = ?
   WHERE tenant_id = :tenant AND id = ? AND status = 'pending'`,
);
const selectOpen = tenantSql(
  "commerce_orders_open_of_thread",
  `SELECT ${columns} FROM commerce_orders INDEXED BY commerce_orders_thread
   WHERE tenant_id = :tenant AND thread_id = ? AND status = 'pending' AND cart_version >= 0
   ORDER BY ts DESC, id DESC LIMIT 20`,
);
const selectUncleared = tenantSql(
  "commerce_orders_uncleared",
  `SELECT ${columns} FROM commerce_orders INDEXED BY commerce_orders_thread
   WHERE tenant_id = :tenant AND thread_id = ? AND status IN ('paid', 'fulfilled') AND cleared = 0
   ORDER BY ts DESC, id DESC LIMIT 20`,
);
const setCleared = tenantSql(
  "commerce_order_set_cleared",
  "UPDATE commerce_orders SET cleared = 1 WHERE tenant_id = :tenant AND id = ? AND cleared = 0",
);
const setPaid = tenantSql(
  "commerce_order_set_paid",
  `UPDATE commerce_orders SET status = 'paid', paid_at = ?, payment_ref = ?, tax_cents = tax_cents + CAST(? AS BIGINT),
     total_cents = total_cents + CAST(? AS BIGINT), email = COALESCE(?, email), updated_at = ?
   WHERE tenant_id = :tenant AND id = ? AND status IN ('pending', 'cancelled') AND paid_at IS NULL
     AND (refunded_cents = 0 OR refunded_cents < total_cents)`,
);
const lockStock = tenantSql(
  "commerce_product_lock",
  "UPDATE commerce_products SET inventory = inventory WHERE tenant_id = :tenant AND id = ?",
);
const markOversold = tenantSql(
  "commerce_order_mark_oversold",
  `UPDATE commerce_orders SET oversold = 1 WHERE tenant_id = :tenant AND id = ? AND EXISTS
     (SELECT 1 FROM commerce_products p WHERE p.tenant_id = :tenant AND p.id = ? AND p.inventory >= 0 AND p.inventory < ?)`,
);
const setCancelled = tenantSql(
  "commerce_order_set_cancelled",
  `UPDATE commerce_orders SET status = 'cancelled', updated_at = ? WHERE tenant_id = :tenant AND id = ? AND status = 'pending'`,
);
const setFulfilled = tenantSql(
  "commerce_order_set_fulfilled",
  `UPDATE commerce_orders SET status = 'fulfilled', updated_at = ? WHERE tenant_id = :tenant AND id = ? AND status = 'paid'`,
);
const setRefunded = tenantSql(
  "commerce_order_set_refunded",
  `UPDATE commerce_orders SET refunded_cents = ?, status = ?, updated_at = ?
   WHERE tenant_id = :tenant AND id = ? AND status = ? AND refunded_cents = ?`,
);
const summary = tenantSql(
  "commerce_attribution_summary",
  `SELECT channel, manifest_id, currency, COUNT(*) AS orders, SUM(revenue_cents) AS revenue_cents
   FROM commerce_attribution WHERE tenant_id = :tenant AND created_at >= ? AND created_at < ?
   GROUP BY channel, manifest_id, currency ORDER BY channel, manifest_id, currency LIMIT 1000`,
);

/** Returns an order. */
export const orderById = selectOne(orderTable, ["id"]);
/** Returns a page of orders, newest first. */
export const orderPage = list(orderTable, ["status", "thread_id"], {
  indexes: { thread_id: "commerce_orders_thread", status: "commerce_orders_status" },
}).page;
/** Returns the operation that stores an order, unless it is stored. */
export const insertOrderOp: (store: TenantStore, row: OrderRow) => WriteOp = insertOnce;
/** Returns the operation that stores the id of a payment event. Its batch refuses with conflict if the event was applied. */
export const insertPaymentEventOp = insertInto(paymentEventTable);
/** Returns the operation that stores the attribution of an order, unless it is stored. */
export const insertAttributionOp = insertInto(attributionTable, "ledger");
/** Returns the attribution of an order. */
export const attributionOf = selectOne(attributionTable, ["order_id"]);

/** Returns the operation that stores the payment page of a pending order. */
export function setSessionOp(
  store: TenantStore,
  id: string,
  session: { id: string; url: string },
  now: number,
): WriteOp {
  return store.op(setSession, [session.id, session.url, now, id], 1);
}

/** Returns the pending orders of the cart of a thread, newest first. Orders of quotes, which have no cart, are left out. */
export async function openOrders(store: TenantStore, threadId: string): Promise<OrderRow[]> {
  return (await store.read(selectOpen, threadId)).map(orderTable.decode);
}

/** Returns the paid orders of a thread whose lines are still in the cart. */
export async function unclearedOrders(store: TenantStore, threadId: string): Promise<OrderRow[]> {
  return (await store.read(selectUncleared, threadId)).map(orderTable.decode);
}

/** Returns the operation that notes that the lines of an order have left the cart. */
export function setClearedOp(store: TenantStore, id: string): WriteOp {
  return store.op(setCleared, [id]);
}

/** A payment of an order. */
export interface Payment {
  readonly ref: string;
  /** Tax that the provider added. */
  readonly tax_cents: number;
  readonly email: string | null;
}

/** Returns the operation that makes a pending or cancelled order paid. Its batch refuses with conflict if it is not. */
export function setPaidOp(store: TenantStore, id: string, { ref, tax_cents, email }: Payment, now: number): WriteOp {
  return store.op(setPaid, [now, ref, tax_cents, tax_cents, email, now, id], 1);
}

/** Returns operations that lock the stock of products, in one order for all orders, and mark the order if a stock is too short. */
export function markOversoldOps(store: TenantStore, order: Pick<OrderRow, "id" | "items">): WriteOp[] {
  const items = order.items.toSorted((a, b) => (a.product_id < b.product_id ? -1 : 1));
  return [
    ...items.map(({ product_id }) => store.op(lockStock, [product_id])),
    ...items.map(({ product_id, qty }) => store.op(markOversold, [order.id, product_id, qty])),
  ];
}

/** Returns the operation that cancels a pending order; it changes no other order. */
export function setCancelledOp(store: TenantStore, id: string, now: number): WriteOp {
  return store.op(setCancelled, [now, id]);
}

/** Returns the operation that makes a paid order fulfilled. Its batch refuses with conflict if it is not paid. */
export function setFulfilledOp(store: TenantStore, id: string, now: number): WriteOp {
  return store.op(setFulfilled, [now, id], 1);
}

/** Returns the operation that stores the refunded amount of an order as it was read. */
export function setRefundedOp(
  store: TenantStore,
  before: OrderRow,
  refunded_cents: number,
  status: OrderRow["status"],
  now: number,
): WriteOp {
  return store.op(setRefunded, [refunded_cents, status, now, before.id, before.status, before.refunded_cents], 1);
}

/** Returns paid orders and their revenue by channel, manifest and currency. */
export async function attributionSummary(store: TenantStore, since: number, until: number) {
  const rows = await store.readLong(summary, since, until);
  return rows.map(({ channel, manifest_id, currency, orders, revenue_cents }) => ({
    ...{ channel: channel as string, manifest_id: manifest_id as string, currency: currency as string },
    ...{ orders: Number(orders), revenue_cents: Number(revenue_cents) },
  }));
}
