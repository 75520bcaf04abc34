import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { SecretMask } from "../../../governance/secret-mask.ts";
import { type Settings, settingOf } from "../../../governance/settings/settings.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { clearPaid } from "../cart/carts.ts";
import { giveStockOp, raiseOp, takeStockOp } from "../catalog/products.ts";
import { isCents, lessCents } from "../core/money.ts";
import { taxBpsSetting } from "../core/shop-settings.ts";
import type { PaymentEvent } from "../core/stripe.ts";
import {
  insertAttributionOp,
  insertPaymentEventOp,
  markOversoldOps,
  type OrderRow,
  orderById,
  setCancelledOp,
  setPaidOp,
  setRefundedOp,
} from "../orders/orders.ts";
import { sessionOf } from "../orders/sessions.ts";
import { commerceOrder } from "./checkout-audit.ts";

// Applies events of the payment provider to orders. Events may come in any order and repeatedly: each is kept by its id in the batch
// that applies it, and each change is guarded by the state of the order as it was read.

/** The services of the events. */
export interface PaymentDeps {
  readonly bus: Bus;
  readonly env: Env;
  readonly store: Store;
  readonly mask: SecretMask;
  readonly settings: Settings;
}

const attemptsMax = 8;

/** Applies an event. Events that name no order of ours, and those that were applied, change nothing. */
export async function applyPaymentEvent(event: PaymentEvent, deps: PaymentDeps): Promise<void> {
  const { object } = event.data;
  const { order_id, tenant_id } = metadataOf(object);
  if (order_id === "" || tenant_id === "") return;
  const tenant = deps.store.tenant(tenant_id);
  for (let attempt = 1; ; attempt++) {
    const order = await orderById(tenant, order_id);
    if (order === undefined) return;
    const ops = await opsOf(event, order, tenant, deps);
    if (ops === null) return;
    try {
      const kept = insertPaymentEventOp(tenant, { id: event.id, ts: deps.env.now(), type: event.type, order_id });
      await tenant.write([kept, ...ops]);
      break;
    } catch (error) {
      const isConflict = error instanceof SvcError && error.code === "conflict";
      // The subject is the statement that did not fit: the event itself, or the order that has changed since.
      if (isConflict && error.details.subject === "commerce_payment_events_insert") break;
      if (!isConflict || attempt === attemptsMax) throw error;
    }
  }
  await leaveCart(tenant, order_id, deps);
}

/** Takes the lines of a paid order out of the cart. Until this has happened, they count as gone. */
async function leaveCart(store: TenantStore, orderId: string, { bus, env, settings }: PaymentDeps): Promise<void> {
  const order = await orderById(store, orderId);
  if (order === undefined || order.status !== "paid" || order.cleared === 1 || order.thread_id === "") return;
  const suffix = order.thread_id.slice(store.tenantId.length + 1);
  const taxBps = settingOf(settings, taxBpsSetting);
  await clearPaid({ bus, env, store, suffix, taxBps }).catch(() => {});
}

/** Returns the operations of an event on the order as it was read; null if the event means nothing to it. */
async function opsOf(
  { type, data: { object } }: PaymentEvent,
  order: OrderRow,
  store: TenantStore,
  deps: PaymentDeps,
): Promise<WriteOp[] | null> {
  const { payment_status } = object;
  switch (type) {
    case "checkout.session.completed":
      return payment_status === "paid" || payment_status === "no_payment_required"
        ? paidOps(object, order, store, deps)
        : null;
    case "checkout.session.async_payment_succeeded":
      return paidOps(object, order, store, deps);
    case "checkout.session.expired":
      if (order.status !== "pending" || (order.session_id !== null && order.session_id !== object.id)) return null;
      return [setCancelledOp(store, order.id, deps.env.now()), orderOp(store, order, "cancelled", {}, deps)];
    case "charge.refunded":
      return refundedOps(object, order, store, deps);
    default:
      return null;
  }
}

async function paidOps(
  object: Readonly<Record<string, unknown>>,
  order: OrderRow,
  store: TenantStore,
  deps: PaymentDeps,
): Promise<WriteOp[]> {
  const { env } = deps;
  const now = env.now();
  const { amount_total, currency, total_details, payment_intent, id, customer_details } = object;
  const { amount_tax = 0 } = (total_details ?? {}) as { readonly amount_tax?: unknown };
  const added = isCents(amount_tax) ? amount_tax : 0;
  const isEqual =
    isCents(amount_total) && lessCents(amount_total, added) === order.total_cents && amount_total >= added;
  const payment_ref = typeof payment_intent === "string" ? payment_intent : String(id ?? "");
  if (!isEqual || currency !== order.currency) {
    const asked = { amount_total, currency, total_cents: order.total_cents, payment_ref };
    return [orderOp(store, order, "payment_mismatch", asked, deps)];
  }
  // A second payment of the same order is recorded, so that a person can return it.
  if (order.paid_at !== null) return [orderOp(store, order, "paid_twice", { payment_ref }, deps)];
  if (order.refunded_cents > 0 && order.refunded_cents >= order.total_cents)
    return [orderOp(store, order, "paid_after_refund", { payment_ref }, deps)];
  const { email } = (customer_details ?? {}) as { readonly email?: unknown };
  const payment = {
    ref: payment_ref,
    tax_cents: added,
    email: typeof email === "string" ? email.slice(0, 254).toLowerCase() : null,
  };
  const session = order.thread_id === "" ? undefined : await sessionOf(store, order.thread_id);
  return [
    setPaidOp(store, order.id, payment, now),
    ...markOversoldOps(store, order),
    ...order.items.map(({ product_id, qty }) => takeStockOp(store, product_id, qty)),
    raiseOp(store, now),
    insertAttributionOp(store, {
      ...{ order_id: order.id, channel: order.channel, manifest_id: order.manifest_id, thread_id: order.thread_id },
      ...{ buyer_subject: order.buyer_subject ?? payment.email, consent_id: order.consent_id, utm: session?.utm ?? {} },
      ...{ revenue_cents: order.total_cents, currency: order.currency, created_at: now },
    }),
    orderOp(store, order, "paid", { payment_ref }, deps),
  ];
}

function refundedOps(
  object: Readonly<Record<string, unknown>>,
  order: OrderRow,
  store: TenantStore,
  deps: PaymentDeps,
): WriteOp[] | null {
  const { amount_refunded, refunded } = object;
  if (!isCents(amount_refunded) || amount_refunded <= order.refunded_cents) return null;
  const now = deps.env.now();
  const isFull = refunded === true || amount_refunded >= order.total_cents;
  const isCancelled = isFull && order.status !== "fulfilled";
  const status = isCancelled ? "cancelled" : order.status;
  const refundedCents = isFull ? Math.max(amount_refunded, order.total_cents) : amount_refunded;
  const isPaid = isCancelled && order.status === "paid";
  // How many units of an oversold order were in stock is not known, so a person must count them.
  const restocks = isPaid && order.oversold === 0;
  return [
    setRefundedOp(store, order, refundedCents, status, now),
    ...(restocks ? order.items.map(({ product_id, qty }) => giveStockOp(store, product_id, qty)) : []),
    ...(restocks ? [raiseOp(store, now)] : []),
    ...(isPaid && !restocks ? [orderOp(store, order, "restock_unknown", {}, deps)] : []),
    orderOp(store, order, isFull ? "refunded" : "refunded_in_part", { refunded_cents: refundedCents }, deps),
  ];
}

function orderOp(
  store: TenantStore,
  { id: order_id, channel: source, total_cents, currency, thread_id, manifest_id }: OrderRow,
  status: string,
  more: Readonly<Record<string, unknown>>,
  deps: PaymentDeps,
): WriteOp {
  const payload = { source, order_id, thread_id, total_cents, currency, ...more };
  // The address of the shopper would stay in the chain of the audit for ever.
  const event = { event_type: commerceOrder, status, manifest_id, principal_subj: "", payload };
  return auditOp(store, deps, event);
}

/** Returns the facts that the shop itself wrote into a session or payment. */
function metadataOf(object: Readonly<Record<string, unknown>>): { order_id: string; tenant_id: string } {
  const { order_id, tenant_id } = (object.metadata ?? {}) as Readonly<Record<string, unknown>>;
  const text = (value: unknown): string => (typeof value === "string" && value.length <= 200 ? value : "");
  return { order_id: text(order_id), tenant_id: text(tenant_id) };
}
