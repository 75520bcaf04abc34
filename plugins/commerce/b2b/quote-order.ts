import type { Env } from "../../../bus/env.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { SecretMask } from "../../../governance/secret-mask.ts";
import { type Settings, settingOf } from "../../../governance/settings/settings.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { raiseOp, takeStockOp } from "../catalog/products.ts";
import { commerceOrder } from "../checkout/checkout-audit.ts";
import { taxBpsSetting } from "../core/shop-settings.ts";
import {
  insertAttributionOp,
  insertOrderOp,
  markOversoldOps,
  type OrderRow,
  orderById,
  setFulfilledOp,
  setPaidOp,
} from "../orders/orders.ts";
import type { QuoteRow } from "./quotes.ts";

// The orders of quotes. An order has the amounts of its quote, and is paid when its invoice is.

/** Returns the tax of quotes in basis points. */
export function taxBpsOf(settings: Settings): number {
  return settingOf(settings, taxBpsSetting);
}

/** Returns the operations that store the pending order of a quote. */
export function orderOfQuoteOps(store: TenantStore, quote: QuoteRow, orderId: string, now: number): WriteOp[] {
  const { account_id, buyer_id, items, currency, subtotal_cents, discount_cents, tax_cents, total_cents } = quote;
  const lines = items.map(({ product_id, title, qty, unit_price_cents }) => {
    return { product_id, title, qty, price_cents: unit_price_cents };
  });
  const order: OrderRow = {
    ...{ id: orderId, ts: now, status: "pending", channel: "b2b", thread_id: quote.thread_id, cart_version: -1 },
    ...{ account_id, buyer_subject: buyer_id, email: null, manifest_id: quote.manifest_id, consent_id: null },
    ...{ items: lines, subtotal_cents, discount_cents, shipping_cents: 0, tax_cents, total_cents, currency },
    ...{ shipping: null, session_id: null, checkout_url: null, payment_ref: null, refunded_cents: 0, oversold: 0 },
    ...{ cleared: 1, paid_at: null, updated_at: now },
  };
  return [insertOrderOp(store, order)];
}

/**
 * Returns the operations that make the order of a paid invoice paid; none for an order that is paid or refunded. Money for a cancelled
 * order makes it paid.
 */
export async function payOrderOps(
  deps: { readonly store: TenantStore; readonly env: Env; readonly mask: SecretMask },
  orderId: string,
  invoiceId: string,
  now: number,
): Promise<WriteOp[]> {
  const { store } = deps;
  const order = await orderById(store, orderId);
  if (order === undefined || !isPayable(order)) return [];
  const { channel, manifest_id, thread_id, buyer_subject, consent_id, total_cents, currency } = order;
  return [
    ...markOversoldOps(store, order),
    setPaidOp(store, orderId, { ref: invoiceId, tax_cents: 0, email: null }, now),
    ...order.items.map(({ product_id, qty }) => takeStockOp(store, product_id, qty)),
    raiseOp(store, now),
    insertAttributionOp(store, {
      ...{ order_id: orderId, channel, manifest_id, thread_id, buyer_subject, consent_id, utm: {} },
      ...{ revenue_cents: total_cents, currency, created_at: now },
    }),
    auditOp(store, deps, {
      event_type: commerceOrder,
      status: "paid",
      manifest_id,
      principal_subj: buyer_subject ?? "",
      payload: {
        source: "b2b",
        order_id: orderId,
        invoice_id: invoiceId,
        payment_ref: invoiceId,
        total_cents,
        currency,
      },
    }),
  ];
}

/** True if the order takes a payment, as the statement of setPaidOp requires. */
function isPayable({ status, paid_at, refunded_cents, total_cents }: OrderRow): boolean {
  const isOpen = (status === "pending" || status === "cancelled") && paid_at === null;
  return isOpen && (refunded_cents === 0 || refunded_cents < total_cents);
}

/** Returns the operations that make a paid order fulfilled: none for a fulfilled one, null if it is neither. */
export async function fulfilOps(store: TenantStore, orderId: string, now: number): Promise<WriteOp[] | null> {
  const order = await orderById(store, orderId);
  if (order?.status === "fulfilled") return [];
  return order?.status === "paid" ? [setFulfilledOp(store, orderId, now)] : null;
}
