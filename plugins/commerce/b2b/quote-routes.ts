import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { auditOp } from "../../../governance/audit.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs } from "../../../storage/store/store.ts";
import { readPaymentEvent } from "../core/stripe.ts";
import { sourceNotNative, sourceUnavailable } from "../sources/entity-codes.ts";
import { tokenOf } from "../sources/entity-source.ts";
import { findInvoice, listInvoices, listQuotes } from "./account-source.ts";
import { accountAudit } from "./b2b-audit.ts";
import {
  accountOrBuyerMissing,
  accountOrBuyerNotFound,
  billingFailed,
  billingNotConfigured,
  buyerNotInAccount,
  invalidBillingSignature,
  invalidQuoteState,
  invoiceNotOpen,
  pricingFailed,
  purchaseNotAuthorized,
  quoteExpired,
  quoteNotReady,
  unknownProvider,
} from "./b2b-codes.ts";
import { Invoice, NewQuote, NextCursor, Paged, Quote, Source } from "./b2b-schemas.ts";
import {
  type BillingProvider,
  billingProviders,
  configNames,
  deploymentSecrets,
  eventSecrets,
  invoiceToPay,
  payInvoice,
  providerOf,
  settleInvoice,
} from "./billing.ts";
import { putBillingSettingsOp } from "./billing-table.ts";
import { invoiceById } from "./quotes.ts";
import { acceptQuote, convertQuote, makeQuote, presentQuote, sendQuote } from "./quoting.ts";
import { actingOf, depsOf } from "./request-deps.ts";
import { invoiceView, quoteView } from "./views.ts";

// Quotes, invoices and billing providers.

const tag = "commerce";
const readScopes = ["b2b:read"];
const writeScopes = ["b2b:write"];
const stored = ["conflict", "storage_unavailable"] as const;
const reads = [sourceUnavailable, "storage_unavailable"] as const;
const ofQuote = [...stored, sourceUnavailable, sourceNotNative, "not_found", invalidQuoteState, quoteExpired] as const;
const Filter = Type.Object(
  { ...Paged, account_id: Type.Optional(Type.String({ maxLength: 128, description: "Only of this account." })) },
  { additionalProperties: false },
);

const createQuote = route({
  method: "POST",
  path: "/b2b/quotes",
  summary: "Makes a quote with the prices of now.",
  tag,
  access: writeScopes,
  body: NewQuote,
  reply: { status: 201, description: "The draft.", schema: Quote },
  fails: [...stored, sourceUnavailable, sourceNotNative, accountOrBuyerNotFound, buyerNotInAccount, pricingFailed],
  async handle(request, context) {
    const { body, principal } = request;
    const asked = { ...body, notes: body.notes ?? "" };
    const quote = await makeQuote(depsOf(context, principal.tenant_id), actingOf(request), asked);
    return json(quoteView(principal.tenant_id, quote), 201);
  },
});

const listQuotesRoute = route({
  method: "GET",
  path: "/b2b/quotes",
  summary: "Quotes, the newest first.",
  tag,
  access: readScopes,
  query: Filter,
  reply: {
    description: "At most 200.",
    schema: Type.Object({ quotes: Type.Array(Quote), source: Source, next_cursor: NextCursor }),
  },
  fails: ["invalid_cursor", ...reads],
  async handle({ query, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const { items, source, next_cursor } = await listQuotes(deps, query.account_id, query.cursor ?? null);
    return json({ quotes: items.map((row) => quoteView(principal.tenant_id, row)), source, next_cursor });
  },
});

const getQuote = route({
  method: "GET",
  path: "/b2b/quotes/{quote_id}",
  summary: "One quote.",
  tag,
  access: readScopes,
  reply: { description: "The quote.", schema: Quote },
  fails: ["not_found", ...reads],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const quote = await presentQuote(deps, String(params.quote_id));
    if (quote === undefined) throw new SvcError("not_found");
    return json(quoteView(principal.tenant_id, quote));
  },
});

const send = route({
  method: "POST",
  path: "/b2b/quotes/{quote_id}/send",
  summary: "Sends a draft; its prices hold until its time is over.",
  tag,
  access: writeScopes,
  body: Type.Object(
    {
      valid_days: Type.Integer({
        minimum: 1,
        maximum: 365,
        default: 14,
        description: "Days for which the prices hold.",
      }),
    },
    { additionalProperties: false },
  ),
  reply: { description: "The quote.", schema: Quote },
  fails: ofQuote,
  async handle({ params, body, principal }, context) {
    const quote = await sendQuote(depsOf(context, principal.tenant_id), String(params.quote_id), body.valid_days);
    return json(quoteView(principal.tenant_id, quote));
  },
});

const accept = route({
  method: "POST",
  path: "/b2b/quotes/{quote_id}/accept",
  summary: "Accepts a sent quote for a buyer.",
  tag,
  access: writeScopes,
  body: Type.Object(
    {
      buyer_id: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 128,
          description: "Default: the buyer of the quote.",
          examples: ["bo"],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The quote: accepted, or pending_approval if the total is above the buyer's limit.",
    schema: Quote,
  },
  fails: [...ofQuote, accountOrBuyerMissing, buyerNotInAccount, purchaseNotAuthorized],
  async handle(request, context) {
    const { params, body, principal } = request;
    const deps = depsOf(context, principal.tenant_id);
    const quote = await acceptQuote(deps, actingOf(request), String(params.quote_id), body.buyer_id);
    return json(quoteView(principal.tenant_id, quote));
  },
});

const convert = route({
  method: "POST",
  path: "/b2b/quotes/{quote_id}/convert",
  summary: "Makes the order and the invoice of an accepted quote.",
  tag,
  access: writeScopes,
  reply: {
    description: "The order is pending until its invoice is paid.",
    schema: Type.Object({
      order_id: Type.String({ examples: ["ord_3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
      invoice: Invoice,
    }),
  },
  fails: [...ofQuote, accountOrBuyerMissing, buyerNotInAccount, purchaseNotAuthorized, quoteNotReady],
  async handle(request, context) {
    const { params, principal } = request;
    const deps = depsOf(context, principal.tenant_id);
    const { invoice } = await convertQuote(deps, actingOf(request), String(params.quote_id));
    return json({ order_id: invoice.order_id, invoice: invoiceView(principal.tenant_id, invoice) });
  },
});

const listInvoicesRoute = route({
  method: "GET",
  path: "/b2b/invoices",
  summary: "Invoices, the newest first.",
  tag,
  access: readScopes,
  query: Filter,
  reply: {
    description: "At most 200.",
    schema: Type.Object({ invoices: Type.Array(Invoice), source: Source, next_cursor: NextCursor }),
  },
  fails: ["invalid_cursor", ...reads],
  async handle({ query, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const { items, source, next_cursor } = await listInvoices(deps, query.account_id, query.cursor ?? null);
    return json({ invoices: items.map((row) => invoiceView(principal.tenant_id, row)), source, next_cursor });
  },
});

const getInvoice = route({
  method: "GET",
  path: "/b2b/invoices/{invoice_id}",
  summary: "One invoice.",
  tag,
  access: readScopes,
  reply: { description: "The invoice.", schema: Invoice },
  fails: ["not_found", ...reads],
  async handle({ params, principal }, context) {
    const invoice = await findInvoice(depsOf(context, principal.tenant_id), String(params.invoice_id));
    if (invoice === undefined) throw new SvcError("not_found");
    return json(invoiceView(principal.tenant_id, invoice));
  },
});

const pay = route({
  method: "POST",
  path: "/b2b/invoices/{invoice_id}/pay",
  summary: "Pays an invoice at its provider, or records its payment.",
  tag,
  access: writeScopes,
  reply: { description: "The invoice; a paid one stays as it is.", schema: Invoice },
  fails: ["not_found", invoiceNotOpen, billingFailed, sourceNotNative, ...stored],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const invoice = await invoiceToPay(deps, String(params.invoice_id));
    if (invoice === undefined) throw new SvcError("not_found");
    const by = { by: "request", principal_subj: principal.sub, manifest_id: "", event_id: null } as const;
    return json(invoiceView(principal.tenant_id, await payInvoice(deps, invoice, by)));
  },
});

const masked = "***";

const getProvider = route({
  method: "GET",
  path: "/b2b/billing/provider",
  summary: "The billing provider of the tenant.",
  tag,
  access: readScopes,
  reply: {
    description: "Values of the configuration are masked.",
    schema: Type.Object({
      provider: Type.String({ examples: ["internal"] }),
      config: Type.Object({}, { additionalProperties: true, examples: [{ secret_key: masked }] }),
      available: Type.Array(Type.String({ examples: ["internal"] })),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ principal }, context) {
    const { provider, config } = await providerOf(depsOf(context, principal.tenant_id));
    const shown = Object.fromEntries(Object.keys(config).map((name) => [name, masked]));
    return json({ provider, config: shown, available: billingProviders });
  },
});

const putProvider = route({
  method: "PUT",
  path: "/b2b/billing/provider",
  summary: "Sets the billing provider of the tenant.",
  tag,
  access: writeScopes,
  body: Type.Object(
    {
      provider: Type.String({ minLength: 1, maxLength: 64, examples: ["internal"] }),
      config: Type.Optional(
        Type.Object(
          {},
          {
            additionalProperties: Type.String({ pattern: "^secret:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" }),
            maxProperties: 8,
            description:
              "Of stripe: secret_key and webhook_secret, each `secret:NAME`. Default: the keys of the server.",
            examples: [{}],
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: { description: "It is set.", schema: Type.Object({ ok: Type.Boolean() }) },
  fails: [unknownProvider, "invalid_request", "storage_unavailable"],
  async handle({ body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const provider = billingProviders.find((name): name is BillingProvider => name === body.provider);
    if (provider === undefined) throw new SvcError(unknownProvider, { detail: { available: billingProviders } });
    const config = (body.config ?? {}) as Readonly<Record<string, string>>;
    for (const [name, value] of Object.entries(config)) {
      if (!configNames[provider].includes(name)) throw invalid(name, `${provider} has no ${name}`);
      if ((await tokenOf(deps, value)) === null)
        throw invalid(name, "the secret is not set, or SVC_SECRET_TENANTS does not grant it to the tenant");
    }
    const payload = { what: "billing_provider", id: provider, change: { config: Object.keys(config) } };
    const event = { event_type: accountAudit, status: "ok", manifest_id: "", principal_subj: principal.sub, payload };
    const row = { provider, config, updated_at: context.env.now() };
    await deps.store.write([putBillingSettingsOp(deps.store, row), auditOp(deps.store, deps, event)], requestMs);
    return json({ ok: true });
  },
});

const invoiceEvents = ["invoice.paid", "invoice.payment_succeeded"];

const webhook = route({
  method: "POST",
  path: "/b2b/billing/webhook",
  summary: "Takes events of a billing provider.",
  tag,
  access: "public",
  headers: Type.Object({
    "Stripe-Signature": Type.Optional(Type.String({ description: "t=SECONDS,v1=HMAC of the body." })),
  }),
  body: Type.Object({}, { additionalProperties: true, description: "The event." }),
  reply: {
    description: "Repeated events, and those about other things, have no effect.",
    schema: Type.Object({ received: Type.Boolean() }),
  },
  fails: [billingNotConfigured, invalidBillingSignature, "storage_unavailable"],
  async handle({ body, rawBody, exchange }, context) {
    const named = metadataOf((body as { data?: { object?: unknown } }).data?.object);
    // The body names the tenant whose secrets apply. The signature proves that the owner of the secret wrote the body.
    const deps = named === null ? null : depsOf(context, named.tenant_id);
    const secrets = deps === null ? deploymentSecrets(context.settings) : await eventSecrets(deps);
    if (secrets.length === 0) throw new SvcError(billingNotConfigured);
    const event = await readPaymentEvent(rawBody, exchange.head.headers["stripe-signature"] ?? "", secrets);
    if (event === null) throw new SvcError(invalidBillingSignature);
    if (deps === null || named === null || !invoiceEvents.includes(event.type)) return json({ received: true });
    const invoice = await invoiceById(deps.store, named.invoice_id);
    const { amount_paid, currency } = event.data.object;
    if (invoice?.status !== "open") return json({ received: true });
    if (amount_paid !== invoice.amount_cents || currency !== invoice.currency) {
      context.metrics.countOwn("svc_commerce_billing_mismatch_total", {});
      context.log.warn(
        { invoice: invoice.id },
        "an event of the billing provider names another amount than the invoice",
      );
      return json({ received: true });
    }
    const by = { by: "event", principal_subj: "billing", manifest_id: "", event_id: event.id } as const;
    await settleInvoice(deps, invoice.id, by);
    return json({ received: true });
  },
});

function metadataOf(object: unknown): { tenant_id: string; invoice_id: string } | null {
  const { metadata } = (object ?? {}) as { metadata?: { tenant_id?: unknown; invoice_id?: unknown } };
  const { tenant_id, invoice_id } = metadata ?? {};
  if (typeof tenant_id !== "string" || typeof invoice_id !== "string") return null;
  return /^[\w.-]{1,128}$/.test(tenant_id) && invoice_id.length <= 128 ? { tenant_id, invoice_id } : null;
}

function invalid(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", "config", field], msg, type: "value_error" }] });
}

/** Routes of quotes, invoices and billing. */
export const quoteRoutes: readonly Route[] = [
  ...[createQuote, listQuotesRoute, getQuote, send, accept, convert, listInvoicesRoute, getInvoice, pay],
  ...[getProvider, putProvider, webhook],
];
