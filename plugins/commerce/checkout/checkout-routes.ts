import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import { json } from "../../../http/exchange/reply.ts";
import { route } from "../../../http/route.ts";
import { BrandQuery, shopOf } from "../brands/brand-rows.ts";
import { paymentsUnset, unsignedPayment } from "../core/shop-errors.ts";
import { stripeWebhookSecretSetting } from "../core/shop-settings.ts";
import { consentPage } from "../orders/consents.ts";
import { attributionOf, attributionSummary, type OrderRow, orderById, orderPage } from "../orders/orders.ts";

const tag = "commerce";
const eventBytesMax = 512 * 1024;

const webhook = route({
  method: "POST",
  path: "/commerce/stripe/webhook",
  summary: "Receives events of the payment provider.",
  tag,
  access: "public",
  bodyBytesMax: eventBytesMax,
  headers: Type.Object({
    "Stripe-Signature": Type.Optional(Type.String({ description: "Signature of the body, by STRIPE_WEBHOOK_SECRET." })),
  }),
  reply: {
    description: "The event is applied, or means nothing to the shop.",
    schema: Type.Object({ received: Type.Boolean({ examples: [true] }) }),
  },
  fails: [paymentsUnset, unsignedPayment, "storage_unavailable"],
  async handle({ rawBody, exchange }, { settings, bus, env, store, mask }) {
    const secret = settingOf(settings, stripeWebhookSecretSetting);
    if (secret === "") throw new SvcError(paymentsUnset);
    const signature = exchange.head.headers["stripe-signature"] ?? "";
    const { readPaymentEvent } = await import("../core/stripe.ts");
    const event = await readPaymentEvent(rawBody, signature, [secret]);
    if (event === null) throw new SvcError(unsignedPayment);
    const { applyPaymentEvent } = await import("./payment-events.ts");
    await applyPaymentEvent(event, { bus, env, store, mask, settings });
    return json({ received: true });
  },
});

const Cursor = Type.Optional(Type.String({ description: "`next_cursor` of the previous page." }));
const Limit = Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Rows per page." });
const NextCursor = Type.Union([Type.String(), Type.Null()], { examples: [null] });
const Nullable = (example: string) => Type.Union([Type.String(), Type.Null()], { examples: [example] });
const Cents = (example: number) => Type.Integer({ examples: [example] });
const EpochMs = Type.Integer({ description: "Epoch milliseconds.", examples: [1_700_000_000_000] });

const Order = Type.Object({
  tenant_id: Type.String({ examples: ["lumen"] }),
  id: Type.String({ examples: ["order_4f53cda18c2baa0c0354bb5f9a3ecbe5"] }),
  status: Type.String({ description: "pending, paid, fulfilled or cancelled.", examples: ["paid"] }),
  channel: Type.String({ examples: ["chat"] }),
  thread_id: Type.String({ examples: ["lumen:shop-1"] }),
  account_id: Nullable("acme"),
  buyer_subject: Nullable("ann@example.com"),
  items: Type.Array(
    Type.Object({
      product_id: Type.String({ examples: ["SKU-1"] }),
      title: Type.String({ examples: ["Desk lamp"] }),
      qty: Type.Integer({ examples: [1] }),
      price_cents: Cents(4_900),
    }),
  ),
  subtotal_cents: Cents(4_900),
  discount_cents: Cents(0),
  shipping_cents: Cents(500),
  tax_cents: Cents(0),
  total_cents: Cents(5_400),
  currency: Type.String({ examples: ["usd"] }),
  payment_ref: Nullable("pi_1"),
  refunded_cents: Cents(0),
  oversold: Type.Boolean({ description: "True if the stock was too short when it was paid.", examples: [false] }),
  created_at: EpochMs,
  paid_at: Type.Union([Type.Integer(), Type.Null()], { examples: [1_700_000_000_000] }),
});

/** Returns an order as routes show it. */
function orderView(tenant_id: string, row: OrderRow): Readonly<Record<string, unknown>> {
  const { id, status, channel, thread_id, account_id, buyer_subject, items, currency, payment_ref, paid_at } = row;
  const { subtotal_cents, discount_cents, shipping_cents, tax_cents, total_cents, refunded_cents } = row;
  return {
    ...{ tenant_id, id, status, channel, thread_id, account_id, buyer_subject, items },
    ...{
      subtotal_cents,
      discount_cents,
      shipping_cents,
      tax_cents,
      total_cents,
      currency,
      payment_ref,
      refunded_cents,
    },
    ...{ oversold: row.oversold === 1, created_at: row.ts, paid_at },
  };
}

const listOrders = route({
  method: "GET",
  path: "/commerce/orders",
  summary: "Orders, newest first.",
  tag,
  access: ["orders:read"],
  query: Type.Object({
    brand: BrandQuery,
    status: Type.Optional(
      Type.String({ maxLength: 20, description: "Only orders in this state.", examples: ["paid"] }),
    ),
    limit: Limit,
    cursor: Cursor,
  }),
  reply: { description: "One page.", schema: Type.Object({ items: Type.Array(Order), next_cursor: NextCursor }) },
  fails: ["not_found", "invalid_cursor", "storage_unavailable"],
  async handle({ query: { brand, status, limit, cursor = null }, principal: { tenant_id } }, context) {
    const store = await shopOf(tenant_id, brand, context);
    const { rows, next_cursor } = await orderPage(store, { status }, cursor, limit);
    return json({ items: rows.map((row) => orderView(store.tenantId, row)), next_cursor });
  },
});

const getOrder = route({
  method: "GET",
  path: "/commerce/orders/{id}",
  summary: "An order.",
  tag,
  access: ["orders:read"],
  params: Type.Object({ id: Type.String({ description: "Id of the order.", examples: ["order_1"] }) }),
  query: Type.Object({ brand: BrandQuery }),
  reply: { description: "The order.", schema: Order },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, query: { brand }, principal: { tenant_id } }, context) {
    const store = await shopOf(tenant_id, brand, context);
    const order = await orderById(store, id);
    if (order === undefined) throw new SvcError("not_found");
    return json(orderView(store.tenantId, order));
  },
});

const Consent = Type.Object({
  tenant_id: Type.String({ examples: ["lumen"] }),
  id: Type.String({ examples: ["01JD0000000000000000000000"] }),
  subject: Type.String({ examples: ["shopper:4f53cda1"] }),
  thread_id: Type.String({ examples: ["lumen:shop-1"] }),
  channel: Type.String({ examples: ["chat"] }),
  scopes: Type.Array(Type.String({ examples: ["terms"] })),
  granted: Type.Boolean({ examples: [true] }),
  terms_version: Type.String({ examples: ["3"] }),
  policy_url: Type.String({ examples: ["https://lumen.example/privacy"] }),
  created_at: EpochMs,
});

const listConsents = route({
  method: "GET",
  path: "/commerce/consents",
  summary: "Consents of shoppers, newest first.",
  tag,
  access: ["consent:read"],
  query: Type.Object({
    brand: BrandQuery,
    thread_id: Type.Optional(Type.String({ maxLength: 300, description: "Full id of a thread." })),
    limit: Limit,
    cursor: Cursor,
  }),
  reply: {
    description: "One page. The newest row of a thread counts.",
    schema: Type.Object({ items: Type.Array(Consent), next_cursor: NextCursor }),
  },
  fails: ["not_found", "invalid_cursor", "storage_unavailable"],
  async handle({ query: { brand, thread_id, limit, cursor = null }, principal }, context) {
    const store = await shopOf(principal.tenant_id, brand, context);
    const { rows, next_cursor } = await consentPage(store, { thread_id }, cursor, limit);
    const items = rows.map(({ ts: created_at, granted, ...row }) => ({
      ...{ tenant_id: store.tenantId, ...row, granted: granted === 1, created_at },
    }));
    return json({ items, next_cursor });
  },
});

const summaryRoute = route({
  method: "GET",
  path: "/commerce/attribution/summary",
  summary: "Paid orders and revenue by channel and manifest.",
  tag,
  access: ["consent:read"],
  query: Type.Object({
    brand: BrandQuery,
    since: Type.Integer({ minimum: 0, default: 0, description: "Epoch milliseconds, included." }),
    until: Type.Integer({
      minimum: 0,
      default: Number.MAX_SAFE_INTEGER,
      description: "Epoch milliseconds, not included.",
    }),
  }),
  reply: {
    description: "A row for each channel, manifest and currency.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          channel: Type.String({ examples: ["chat"] }),
          manifest_id: Type.String({ examples: ["brand-lumen"] }),
          currency: Type.String({ examples: ["usd"] }),
          orders: Type.Integer({ examples: [3] }),
          revenue_cents: Cents(16_200),
        }),
      ),
    }),
  },
  fails: ["not_found", "invalid_window", "storage_unavailable"],
  async handle({ query: { brand, since, until }, principal }, context) {
    if (until <= since) throw new SvcError("invalid_window");
    const store = await shopOf(principal.tenant_id, brand, context);
    return json({ items: await attributionSummary(store, since, until) });
  },
});

const attributionRoute = route({
  method: "GET",
  path: "/commerce/attribution/orders/{id}",
  summary: "Where a paid order came from.",
  tag,
  access: ["consent:read"],
  params: Type.Object({ id: Type.String({ description: "Id of the order.", examples: ["order_1"] }) }),
  query: Type.Object({ brand: BrandQuery }),
  reply: {
    description: "The row of the order.",
    schema: Type.Object({
      tenant_id: Type.String({ examples: ["lumen"] }),
      order_id: Type.String({ examples: ["order_1"] }),
      channel: Type.String({ examples: ["chat"] }),
      manifest_id: Type.String({ examples: ["brand-lumen"] }),
      thread_id: Type.String({ examples: ["lumen:shop-1"] }),
      buyer_subject: Nullable("ann@example.com"),
      consent_id: Nullable("01JD0000000000000000000000"),
      utm: Type.Object({}, { additionalProperties: true, examples: [{ source: "news" }] }),
      created_at: EpochMs,
    }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, query: { brand }, principal }, context) {
    const store = await shopOf(principal.tenant_id, brand, context);
    const row = await attributionOf(store, id);
    if (row === undefined) throw new SvcError("not_found");
    const { revenue_cents: _, currency: __, ...shown } = row;
    return json({ tenant_id: store.tenantId, ...shown });
  },
});

/** The routes of orders, consents and payment events. */
export const checkoutRoutes = [webhook, listOrders, getOrder, listConsents, summaryRoute, attributionRoute];
