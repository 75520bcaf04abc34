import { createHash } from "node:crypto";
import { SvcError } from "../../../bus/errors.ts";
import { auditOp } from "../../../governance/audit.ts";
import { fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { brandByStorefront } from "../brands/brand-lookup.ts";
import { raiseOp, takeStockOp } from "../catalog/products.ts";
import { commerceOrder } from "../checkout/checkout-audit.ts";
import { openPayments, type Payments } from "../core/stripe.ts";
import { insertAttributionOp, insertOrderOp, markOversoldOps, type OrderRow } from "../orders/orders.ts";
import { acpBusy } from "./acp-form.ts";
import { type ComputedSession, problem, withMessage } from "./acp-session.ts";
import { type AcpDeps, operatorRules, sessionOf } from "./acp-sources.ts";
import { claimSessionUntil, type LockedOrder, type SessionRow, sessionById, updateSessionOp } from "./sessions.ts";

// The completion of a session: claim it, charge once under a key of the session, then store the order with the end of the session in
// one batch (decisions 275 and 294). A crash between the charge and the order leaves a claimed session, which the sweep closes.

/** Time for a completion; after it the sweep asks the provider what has happened. */
const claimMs = 60_000;

/** Returns the answer of a completion. Refuses with session_in_progress while another request completes the session. */
export async function completeSession(
  store: TenantStore,
  before: SessionRow,
  token: string,
  deps: AcpDeps,
): Promise<object> {
  if (before.status === "completed") return before.view;
  if (before.status === "canceled") return withMessage(before.view, problem("invalid", "The session is canceled."));
  const payments = await paymentsOf(store.tenantId, deps);
  if (payments === null)
    return withMessage(before.view, problem("payment_declined", "The shop takes no payments now."));
  const session = await sessionOf(before.id, before.given, store.tenantId, deps);
  if (session.status !== "ready_for_payment")
    return withMessage(session.view, problem("invalid", "The session is not ready for payment."));
  const now = deps.env.now();
  const given = { ...before.given, locked: lockedOrder(session) };
  const until = now + claimMs;
  const row = await claimSessionUntil(store, before, { given, view: session.view }, until, now).catch(
    (error: unknown) => {
      if (SvcError.from(error).code !== "conflict") throw error;
      throw new SvcError(acpBusy, { retryAfterSeconds: Math.ceil(claimMs / 1000) });
    },
  );
  const charge = await charged(payments, row, given.locked, store.tenantId, token).catch((error: unknown) => {
    deps.log.warn({ err: error, session_id: row.id }, "the payment provider gave no clear answer to a charge");
    throw new SvcError("dependency_unavailable", {}, { cause: error });
  });
  if (charge !== null) return finish(store, row, given.locked, charge, deps);
  await release(store, row);
  return withMessage(row.view, problem("payment_declined", "The payment was declined."));
}

/** Closes a session whose completion was cut off: with its order if the provider has charged, else as it was. */
export async function closeCutOff(store: TenantStore, row: SessionRow, deps: AcpDeps): Promise<void> {
  const payments = await paymentsOf(store.tenantId, deps);
  const { locked } = row.given;
  if (payments === null || locked === undefined) return;
  const intent = await intentOf(payments, row, locked, store.tenantId);
  if (intent.status === "succeeded") await finish(store, row, locked, intent.id, deps);
  else if (intent.status !== "processing") await release(store, row);
}

/** Returns the figures of a session that is about to be charged. */
function lockedOrder({ lines, shipping, currency, totals }: ComputedSession): LockedOrder {
  const { subtotal_cents, shipping_cents, tax_cents, total_cents } = totals;
  return {
    items: lines.map(({ product: { id, title, price_cents }, quantity }) => {
      return { product_id: id, title, qty: quantity, price_cents };
    }),
    ...{ shipping, currency, subtotal_cents, shipping_cents, tax_cents, total_cents },
  };
}

/** Returns the id of the order of a session. */
function orderIdOf({ id }: Pick<SessionRow, "id">): string {
  return `acp_order_${id}`;
}

function paymentsOf(tenantId: string, { settings, outgoing }: AcpDeps): Promise<Payments | null> {
  return openPayments(settings, fetchWith(outgoing, operatorRules(tenantId)));
}

/**
 * Returns the payment of a session at the provider. The same figures find the same payment, because the key is that of the session, so no
 * search is needed after a crash. Throws if the figures differ from those of an earlier attempt.
 */
async function intentOf(
  payments: Payments,
  row: SessionRow,
  { total_cents, currency }: LockedOrder,
  tenant_id: string,
): Promise<{ readonly id: string; readonly status: string }> {
  const metadata = { order_id: orderIdOf(row), tenant_id, acp_session_id: row.id, channel: "acp" };
  const idempotencyKey = `acp-complete-${row.id}`;
  const made = await payments.paymentIntents.create({ amount: total_cents, currency, metadata }, { idempotencyKey });
  // The repeated answer is that of the first time.
  return payments.paymentIntents.retrieve(made.id);
}

/** Charges once, and returns the payment's id; null if it was declined. Throws if the outcome is unknown; the session stays claimed then. */
async function charged(
  payments: Payments,
  row: SessionRow,
  locked: LockedOrder,
  tenantId: string,
  token: string,
): Promise<string | null> {
  const intent = await intentOf(payments, row, locked, tenantId);
  if (intent.status === "succeeded") return intent.id;
  // Each token is tried once under a key of its own, so that another one may follow a decline.
  const idempotencyKey = `acp-complete-${row.id}-${createHash("sha256").update(token).digest("hex").slice(0, 16)}`;
  try {
    // A preview of the provider's API, which its types do not have yet.
    const payment_method_data = { shared_payment_granted_token: token } as never;
    const confirmed = await payments.paymentIntents.confirm(intent.id, { payment_method_data }, { idempotencyKey });
    if (confirmed.status === "processing") throw new Error("the payment is being processed");
    return confirmed.status === "succeeded" ? intent.id : null;
  } catch (error) {
    // Only a refusal of the card or of the token says that nothing was charged.
    const { statusCode = 0, rawType = "" } = error as { readonly statusCode?: number; readonly rawType?: string };
    if (statusCode === 402 || (statusCode === 400 && rawType !== "idempotency_error")) return null;
    throw error;
  }
}

async function release(store: TenantStore, row: SessionRow): Promise<void> {
  const { locked: _, ...given } = row.given;
  await store.write([updateSessionOp(store, row, { status: row.status, given, view: row.view })]);
}

/** Stores the order with the end of the session. A session that another request has ended keeps its order. */
async function finish(
  store: TenantStore,
  row: SessionRow,
  locked: LockedOrder,
  ref: string,
  deps: AcpDeps,
): Promise<object> {
  const { env } = deps;
  const now = env.now();
  const id = orderIdOf(row);
  const brand = await brandByStorefront(deps.store, store.tenantId);
  const shop = (brand?.identity.structured_data.base_url ?? "").replace(/\/+$/, "");
  const base = shop === "" ? deps.settings.publicUrl : shop;
  const order = { id, checkout_session_id: row.id, permalink_url: `${base}/orders/${id}` };
  const view = { ...row.view, status: "completed", messages: [], order };
  const { buyer } = row.given;
  const stored: OrderRow = {
    ...{ id, ts: now, status: "paid", channel: "acp", thread_id: "", cart_version: -1, account_id: null },
    ...{ buyer_subject: buyer?.email ?? null, email: buyer?.email ?? null, manifest_id: "", consent_id: null },
    ...{ items: locked.items, shipping: locked.shipping, currency: locked.currency, discount_cents: 0 },
    ...{ subtotal_cents: locked.subtotal_cents, shipping_cents: locked.shipping_cents, tax_cents: locked.tax_cents },
    ...{ total_cents: locked.total_cents, session_id: row.id, checkout_url: null, payment_ref: ref, refunded_cents: 0 },
    ...{ oversold: 0, cleared: 1, paid_at: now, updated_at: now },
  };
  const payload = {
    ...{ source: "acp", order_id: id, checkout_session_id: row.id, payment_ref: ref },
    ...{ total_cents: stored.total_cents, currency: stored.currency },
  };
  const event = { event_type: commerceOrder, status: "paid", manifest_id: "", principal_subj: "acp", payload };
  const ops: WriteOp[] = [
    updateSessionOp(store, row, { status: "completed", given: row.given, view }),
    insertOrderOp(store, stored),
    ...markOversoldOps(store, stored),
    ...stored.items.map(({ product_id, qty }) => takeStockOp(store, product_id, qty)),
    raiseOp(store, now),
    insertAttributionOp(store, {
      ...{ order_id: id, channel: "acp", manifest_id: "", thread_id: "", buyer_subject: stored.buyer_subject },
      ...{ consent_id: null, utm: {}, revenue_cents: stored.total_cents, currency: stored.currency, created_at: now },
    }),
    auditOp(store, deps, event),
  ];
  try {
    await store.write(ops);
    return view;
  } catch (error) {
    const now = SvcError.from(error).code === "conflict" ? await sessionById(store, row.id) : undefined;
    if (now?.status === "completed") return now.view;
    throw error;
  }
}
