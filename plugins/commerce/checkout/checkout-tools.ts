import { defineTool, type ToolResult, toolError } from "../../../actors/tools/tool.ts";
import { Type } from "../../../bus/type.ts";
import { auditOp } from "../../../governance/audit.ts";
import { hasScopes } from "../../../governance/auth/scopes.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { PluginToolContext } from "../../plugin.ts";
import { brandOfTenant } from "../brands/brand-table.ts";
import { type Cart, emptyCart } from "../cart/cart.ts";
import { placeOf, priceChanges } from "../cart/cart-tools.ts";
import { changeCart, readCart, threadOf } from "../cart/carts.ts";
import { areFactsOf, FactsDigest, withFacts } from "../core/approved-facts.ts";
import { priceText } from "../core/money.ts";
import {
  carriersSetting,
  requireConsentSetting,
  shipCountriesSetting,
  shippingSetting,
  stripeAutomaticTaxSetting,
  stripeCancelUrlSetting,
  stripeSuccessUrlSetting,
  taxBpsSetting,
} from "../core/shop-settings.ts";
import { openPayments, type Payments } from "../core/stripe.ts";
import { type ConsentRow, insertConsent, newestConsent } from "../orders/consents.ts";
import { insertOrderOp, type OrderRow, openOrders, orderById, setCancelledOp, setSessionOp } from "../orders/orders.ts";
import { noteBuyerOp, sessionOf } from "../orders/sessions.ts";
import { boundFacts, orderIdOf, type Priced, priceCheckout } from "./checkout.ts";
import { consentRecorded } from "./checkout-audit.ts";
import { shippingOptions } from "./shipping.ts";

const closed = { additionalProperties: false } as const;
const noThread = toolError("not_found", "there is no checkout without a conversation");
const email = '^[^\\s@<>"]{1,64}@[^\\s@<>"]{1,189}$';

interface CheckoutArgs {
  readonly shipping_option_id?: string;
  readonly email?: string;
  readonly country?: string;
}

/** Returns what a checkout of the conversation's cart would charge, or why there is none. */
async function priced(
  { shipping_option_id = undefined, country = undefined }: CheckoutArgs,
  context: PluginToolContext,
): Promise<Priced | string> {
  const place = placeOf(context);
  const cart: Cart = place === null ? emptyCart : await readCart(place);
  const { settings, services } = context;
  const countries = settingOf(settings, shipCountriesSetting);
  const to = country?.toUpperCase() ?? countries[0] ?? "US";
  if (!countries.includes(to)) return `the shop does not send to ${to}; it sends to ${countries.join(", ")}`;
  const shipping = settingOf(settings, shippingSetting);
  const options = await shippingOptions(
    { country: to, items: cart.items },
    {
      ...{ shipping, carriers: settingOf(settings, carriersSetting) },
      ...{ requester: services.egress.operator, secrets: services.secrets },
    },
  );
  return priceCheckout(context, cart, shipping_option_id ?? null, {
    ...{ country: to, options, freeThreshold: shipping.free_threshold_cents },
    taxBps: settingOf(settings, stripeAutomaticTaxSetting) ? 0 : settingOf(settings, taxBpsSetting),
  });
}

/** Returns the charge in words, for the person who approves it. */
function chargeText({ cart, shipping, subtotal_cents, shipping_cents, tax_cents, total_cents }: Priced): string {
  const price = (cents: number): string => priceText(cents, cart.currency);
  return [
    ...cart.items.map(({ title, qty, price_cents }) => `${qty} x ${title} at ${price(price_cents)}`),
    `Subtotal ${price(subtotal_cents)}`,
    `Shipping (${shipping.title}) ${price(shipping_cents)}`,
    `Tax ${price(tax_cents)}`,
    `Total ${price(total_cents)}`,
  ].join("\n");
}

const checkout = defineTool({
  name: "commerce_checkout",
  description:
    "Makes the payment page for the cart of the conversation. The shopper approves the total first. No argument is an amount.",
  parameters: Type.Object(
    {
      shipping_option_id: Type.Optional(
        Type.String({ maxLength: 64, description: "How the order is sent; the cheapest way if absent." }),
      ),
      email: Type.Optional(Type.String({ pattern: email, description: "Address for the receipt." })),
      country: Type.Optional(Type.String({ pattern: "^[A-Za-z]{2}$", description: "Country of the address, as US." })),
      facts_digest: FactsDigest,
    },
    closed,
  ),
  effect: "idempotent",
  risk: "spends",
  needs: "thread",
  timeoutMs: 60_000,
  // An impossible checkout is refused here, before it asks for an approval.
  async binds(args, context: PluginToolContext) {
    const place = placeOf(context);
    if (place === null) return noThread;
    if (lacksConsent(context, await newestConsent(context.store, threadOf(place)))) return consentRequired;
    const charge = await priced(args, context);
    if (typeof charge === "string") return toolError("invalid_arguments", charge);
    return withFacts(args, boundFacts(threadOf(place), charge));
  },
  async preview(args, context: PluginToolContext) {
    const charge = await priced(args, context);
    return typeof charge === "string" ? charge : chargeText(charge);
  },
  async execute(args, context: PluginToolContext): Promise<ToolResult> {
    const place = placeOf(context);
    if (place === null) return noThread;
    const { store, env, settings, services, threadSuffix } = context;
    const threadId = threadOf(place);
    const consent = await newestConsent(store, threadId);
    if (lacksConsent(context, consent)) return consentRequired;
    const charge = await priced(args, context);
    if (typeof charge === "string") return toolError("invalid_arguments", charge);
    if (!areFactsOf(args, boundFacts(threadId, charge))) return otherFacts;
    const changes = priceChanges(charge.cart, charge.products);
    if (changes.length > 0) {
      await changeCart(place, async (cart) => withNewPrices(cart, charge));
      const told = `${changes.join("; ")}. The cart has the new prices now. Tell the shopper, then check out again.`;
      return toolError("invalid_arguments", told);
    }
    const payments = await openPayments(settings, services.egress.operator.fetch);
    if (payments === null) return toolError("transport_unavailable", "checkout is not configured");
    const session = await sessionOf(store, threadId);
    const id = orderIdOf(threadId, charge.cart.version, context.key);
    const now = env.now();
    const order: OrderRow = {
      ...{ id, ts: now, status: "pending", channel: session?.channel ?? "chat", thread_id: threadId },
      ...{ cart_version: charge.cart.version, account_id: null, buyer_subject: session?.buyer_subject ?? null },
      ...{
        email: args.email?.toLowerCase() ?? null,
        manifest_id: context.manifest,
        consent_id: consent?.granted === 1 ? consent.id : null,
      },
      ...{ items: charge.cart.items, subtotal_cents: charge.subtotal_cents, discount_cents: charge.discount_cents },
      ...{ shipping_cents: charge.shipping_cents, tax_cents: charge.tax_cents, total_cents: charge.total_cents },
      ...{ currency: charge.cart.currency, shipping: charge.shipping, session_id: null, checkout_url: null },
      ...{ payment_ref: null, refunded_cents: 0, oversold: 0, cleared: 0, paid_at: null, updated_at: now },
    };
    const earlier = await openOrders(store, threadId);
    // The row comes first: a payment page without an order could take money for nothing.
    await store.write([insertOrderOp(store, order)]);
    const stored = (await orderById(store, id)) ?? order;
    // A withdrawal cancels the orders that it finds, so an order that it did not find must find the withdrawal.
    if (lacksConsent(context, await newestConsent(store, threadId))) {
      await expirePages(payments, [stored], context);
      return consentRequired;
    }
    if (stored.checkout_url !== null) return payable(stored);
    try {
      const page = await createSession(payments, stored, context, threadSuffix ?? "");
      await store.write([setSessionOp(store, id, page, env.now())]).catch(async (error: unknown) => {
        // The order was cancelled at the same time: its page must not take money.
        await payments.checkout.sessions.expire(page.id);
        throw error;
      });
      await expirePages(
        payments,
        earlier.filter((one) => one.id !== id),
        context,
      );
      return payable({ ...stored, checkout_url: page.url });
    } catch (error) {
      context.log.warn({ err: error, order_id: id }, "the payment provider made no payment page");
      return toolError("transport_unavailable", "the payment provider does not answer; try again later");
    }
  },
});

const consentRequired = toolError("permission_denied", "denied by commerce: consent required (terms)");
const otherFacts = toolError(
  "invalid_arguments",
  "the cart, its price or its delivery has changed since the approval. Check out again, so that the shopper approves the new total.",
);

/** True if a checkout needs a consent to the terms, and the newest consent of the conversation is none. */
function lacksConsent({ settings }: PluginToolContext, newest: ConsentIn): boolean {
  return settingOf(settings, requireConsentSetting) && !(newest?.granted === 1 && newest.scopes.includes("terms"));
}

type ConsentIn = Pick<ConsentRow, "granted" | "scopes"> | undefined;

function payable({ id, checkout_url, total_cents, currency }: OrderRow): ToolResult {
  return { text: JSON.stringify({ order_id: id, checkout_url, total_cents, currency }) };
}

function withNewPrices(cart: Cart, { products }: Priced): Pick<Cart, "items" | "currency"> {
  const items = cart.items.map((item) => ({
    ...item,
    price_cents: products.get(item.product_id)?.price_cents ?? item.price_cents,
  }));
  return { items, currency: cart.currency };
}

async function createSession(
  payments: Payments,
  order: OrderRow,
  { settings, tenantId, manifest }: PluginToolContext,
  suffix: string,
): Promise<{ id: string; url: string }> {
  const { currency, items, shipping, tax_cents, shipping_cents } = order;
  const isAutomatic = settingOf(settings, stripeAutomaticTaxSetting);
  const line = (name: string, unit_amount: number, quantity: number) => ({
    quantity,
    price_data: { currency, unit_amount, product_data: { name } },
  });
  const metadata = {
    ...{ order_id: order.id, tenant_id: tenantId, thread_id: suffix, channel: order.channel, manifest_id: manifest },
    ...{ buyer_subject: order.buyer_subject ?? "", consent_id: order.consent_id ?? "" },
  };
  const countries = settingOf(settings, shipCountriesSetting);
  const session = await payments.checkout.sessions.create(
    {
      mode: "payment",
      client_reference_id: order.id,
      success_url: settingOf(settings, stripeSuccessUrlSetting),
      cancel_url: settingOf(settings, stripeCancelUrlSetting),
      line_items: [
        ...items.map(({ title, price_cents, qty }) => line(title, price_cents, qty)),
        ...(tax_cents > 0 ? [line("Tax", tax_cents, 1)] : []),
      ],
      shipping_address_collection: { allowed_countries: countries as never },
      shipping_options: [
        {
          shipping_rate_data: {
            ...{ display_name: shipping?.title ?? "Shipping", type: "fixed_amount" as const },
            fixed_amount: { amount: shipping_cents, currency },
          },
        },
      ],
      ...(order.email !== null && { customer_email: order.email }),
      ...(isAutomatic && { automatic_tax: { enabled: true } }),
      metadata,
      payment_intent_data: { metadata },
    },
    { idempotencyKey: order.id },
  );
  if (typeof session.url !== "string") throw new Error("the payment page has no address");
  return { id: session.id, url: session.url };
}

/** Expires the payment pages of pending orders, and cancels the orders. */
async function expirePages(
  payments: Payments,
  orders: readonly OrderRow[],
  { store, env, log }: PluginToolContext,
): Promise<void> {
  for (const { id, session_id } of orders) {
    try {
      if (session_id !== null) await payments.checkout.sessions.expire(session_id);
      await store.write([setCancelledOp(store, id, env.now())]);
    } catch (error) {
      // It may be paid by now; then its event says so.
      log.info({ err: error, order_id: id }, "a payment page could not be expired");
    }
  }
}

const orderStatus = defineTool({
  name: "order_status",
  description: "Returns the state of an order.",
  parameters: Type.Object(
    { order_id: Type.String({ minLength: 1, maxLength: 128, description: "Id of the order." }) },
    closed,
  ),
  effect: "read",
  risk: "reads",
  async execute({ order_id }, context: PluginToolContext) {
    const { store, principal } = context;
    const order = await orderById(store, order_id);
    const place = placeOf(context);
    const isOwn = place !== null && order?.thread_id === threadOf(place);
    // Only members of the tenant may read an order of another conversation.
    const isMember = principal.scheme !== "anonymous" && hasScopes(principal, ["orders:read"]);
    if (order === undefined || !(isOwn || isMember)) return toolError("not_found", "there is no order with this id");
    const { id, status, total_cents, currency, items, ts: created_at } = order;
    return { text: JSON.stringify({ id, status, total_cents, currency, items, created_at }), taint: ["catalog"] };
  },
});

const recordConsent = defineTool({
  name: "commerce_record_consent",
  description:
    "Records that the shopper agrees to the terms, or withdraws this. Call it only after the shopper has said so.",
  parameters: Type.Object(
    {
      granted: Type.Boolean({ description: "False withdraws the consent." }),
      scopes: Type.Optional(
        Type.Array(Type.Union([Type.Literal("terms"), Type.Literal("data_share"), Type.Literal("marketing")]), {
          minItems: 1,
          maxItems: 3,
          description: "What the consent is for; terms if absent.",
        }),
      ),
    },
    closed,
  ),
  effect: "once",
  risk: "writes",
  needs: "thread",
  async execute({ granted, scopes = ["terms"] }, context: PluginToolContext) {
    const place = placeOf(context);
    if (place === null) return noThread;
    const { store, env, mask, principal, manifest } = context;
    const threadId = threadOf(place);
    const [session, terms] = await Promise.all([sessionOf(store, threadId), termsOf(context)]);
    const before = await newestConsent(store, threadId);
    const row = {
      // Later than any row before, so that the newest one counts.
      ...{ id: env.id(), ts: Math.max(env.now(), (before?.ts ?? 0) + 1), thread_id: threadId, subject: principal.sub },
      ...{ channel: session?.channel ?? "chat", scopes: [...new Set(scopes)], granted: granted ? 1 : 0, ...terms },
    };
    const payload = { consent_id: row.id, thread_id: threadId, scopes: row.scopes };
    const event = {
      ...{ event_type: consentRecorded, status: granted ? "granted" : "withdrawn", manifest_id: manifest },
      ...{ principal_subj: principal.sub, payload },
    };
    await store.write([insertConsent(store, row), auditOp(store, { env, mask }, event)]);
    if (lacksConsent(context, row)) {
      const payments = await openPayments(context.settings, context.services.egress.operator.fetch);
      if (payments !== null) await expirePages(payments, await openOrders(store, threadId), context);
    }
    return { text: JSON.stringify({ consent_id: row.id, granted, scopes: row.scopes }) };
  },
});

/** Returns the terms of the brand whose tenant this is; empty without a brand. */
async function termsOf({ store }: PluginToolContext): Promise<{ terms_version: string; policy_url: string }> {
  const { terms_version = "", privacy_url = "" } = (await brandOfTenant(store))?.identity.consent ?? {};
  return { terms_version, policy_url: privacy_url };
}

const identifyCustomer = defineTool({
  name: "identify_customer",
  description: "Notes the e-mail address that the shopper has given, so that its orders can be attributed.",
  parameters: Type.Object({ email: Type.String({ pattern: email, description: "The address." }) }, closed),
  effect: "idempotent",
  risk: "writes",
  needs: "thread",
  async execute({ email: given }, context: PluginToolContext) {
    const place = placeOf(context);
    if (place === null) return noThread;
    const { store, env } = context;
    const subject = given.toLowerCase();
    await store.write([noteBuyerOp(store, threadOf(place), subject, env.now())]);
    // The answer is the same for a known and an unknown address, so that it does not reveal customers.
    return { text: JSON.stringify({ buyer_subject: subject }) };
  },
});

/** The tools of checkout. */
export const checkoutTools = [checkout, orderStatus, recordConsent, identifyCustomer];
