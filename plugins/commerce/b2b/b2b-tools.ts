import { defineTool, type ToolResult, toolError } from "../../../actors/tools/tool.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { hasScopes } from "../../../governance/auth/scopes.ts";
import type { PluginToolContext } from "../../plugin.ts";
import { productById } from "../catalog/products.ts";
import { areFactsOf, FactsDigest, withFacts } from "../core/approved-facts.ts";
import { accountPrice, rulesOf } from "../pricing/price-lookup.ts";
import { effectiveSource, type SourceDeps } from "../sources/entity-source.ts";
import type { EntityType } from "../sources/entity-tables.ts";
import { accountShown, buyerOfSubject, findAccount, findBuyer, findInvoice } from "./account-source.ts";
import type { BuyerRow } from "./accounts.ts";
import { invoiceToPay, payInvoice } from "./billing.ts";
import { type InvoiceRow, invoiceById, type QuoteRow } from "./quotes.ts";
import { acceptQuote, checkPurchase, convertQuote, makeQuote, presentQuote, sendQuote } from "./quoting.ts";
import { actingInCall, depsOfCall } from "./request-deps.ts";
import { buyerView, invoiceView, quoteView } from "./views.ts";

// The tools of businesses. A caller with b2b:write acts for every account. Any other caller is the buyer whose subject it is, and sees
// the buyer's own account only. No amount of an argument is ever charged.

const closed = { additionalProperties: false } as const;
const Id = (description: string) => Type.String({ minLength: 1, maxLength: 128, description });
const Quantity = Type.Integer({ minimum: 1, maximum: 1_000_000, description: "Units." });

/** Whom the caller may act for: everybody, or as one buyer. */
type Access = { readonly kind: "staff" } | { readonly kind: "buyer"; readonly buyer: BuyerRow };

const noBuyer = toolError("permission_denied", "the caller is no buyer of a business");
const unknown = toolError("not_found", "there is nothing of this id");
const otherFacts = toolError(
  "invalid_arguments",
  "the amount or its lines have changed since the call was approved; call again",
);

/** Runs a call with the access of its caller. Refusals become failures for the model. */
async function within(
  context: PluginToolContext,
  act: (deps: SourceDeps, access: Access) => Promise<ToolResult>,
): Promise<ToolResult> {
  const deps = depsOfCall(context);
  try {
    const access = await accessOf(deps, context);
    return access === null ? noBuyer : await act(deps, access);
  } catch (error) {
    return failureFor(error);
  }
}

/** Returns the arguments with the digest of facts, or why the facts cannot be read. */
function bound<Args extends object>(
  args: Args,
  facts: Promise<unknown>,
): Promise<{ readonly args: Args } | ToolResult> {
  return facts.then((value) => withFacts(args, value), failureFor);
}

function failureFor(error: unknown): ToolResult {
  const refusal = SvcError.from(error);
  if (refusal.code === "internal_error") throw error;
  return toolError(failureOf(refusal.status), refusalText(refusal));
}

async function accessOf(deps: SourceDeps, { principal, isAnonymous }: PluginToolContext): Promise<Access | null> {
  if (isAnonymous) return null;
  if (hasScopes(principal, ["b2b:write"])) return { kind: "staff" };
  const buyer = await buyerOfSubject(deps, principal.sub);
  return buyer?.status === "active" ? { kind: "buyer", buyer } : null;
}

function failureOf(status: number) {
  if (status === 404) return "not_found" as const;
  if (status === 403 || status === 409) return "permission_denied" as const;
  return status >= 500 ? ("transport_unavailable" as const) : ("invalid_arguments" as const);
}

function refusalText({ code, sentence, details: { detail } }: SvcError): string {
  const more = detail === undefined ? "" : `: ${typeof detail === "string" ? detail : JSON.stringify(detail)}`;
  return `${code}${more}${sentence === null ? "" : ` (${sentence})`}`;
}

/** True if the caller may see an account. */
function sees(access: Access, accountId: string): boolean {
  return access.kind === "staff" || access.buyer.account_id === accountId;
}

/** Returns a value as the model reads it, marked as text of another system if one keeps it. */
async function shown(
  deps: SourceDeps,
  type: EntityType,
  value: unknown,
  more: readonly string[] = [],
): Promise<ToolResult> {
  const { mode } = await effectiveSource(deps, type);
  const taint = [...(mode === "native" ? [] : [`entity:${type}`]), ...more];
  return { text: JSON.stringify(value), ...(taint.length > 0 && { taint }) };
}

const accountGet = defineTool({
  name: "account_get",
  description: "Returns an account of a business: status, payment terms, credit limit and open amount.",
  parameters: Type.Object({ account_id: Id("Of the account.") }, closed),
  effect: "read",
  risk: "reads",
  execute: ({ account_id }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      if (!sees(access, account_id)) return unknown;
      const found = await findAccount(deps, account_id);
      if (found === undefined) return unknown;
      const { metadata: _, ...view } = await accountShown(deps, found.account);
      return shown(deps, "account", view);
    }),
});

const buyerGet = defineTool({
  name: "buyer_get",
  description: "Returns a buyer of a business: account, role and spending limit.",
  parameters: Type.Object({ buyer_id: Id("Of the buyer.") }, closed),
  effect: "read",
  risk: "reads",
  execute: ({ buyer_id }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const found = await findBuyer(deps, buyer_id);
      if (found === undefined || !sees(access, found.buyer.account_id)) return unknown;
      return shown(deps, "buyer", buyerView(context.tenantId, found.buyer));
    }),
});

const authorityCheck = defineTool({
  name: "purchase_authority_check",
  description:
    "Tells whether a buyer may purchase for an amount: allowed, requires_approval or blocked, with the reason. It charges nothing.",
  parameters: Type.Object(
    {
      account_id: Id("Of the account."),
      buyer_id: Id("Of the buyer."),
      amount_cents: Type.Integer({ minimum: 1, maximum: 99_999_999, description: "The amount that is asked about." }),
      note: Type.Optional(Type.String({ maxLength: 1_000, description: "For who decides." })),
    },
    closed,
  ),
  effect: "read",
  risk: "reads",
  execute: ({ account_id, buyer_id, amount_cents, note = "" }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      if (!sees(access, account_id)) return unknown;
      if (access.kind === "buyer" && access.buyer.id !== buyer_id) return unknown;
      const asked = { account_id, buyer_id, amount_cents, note, asks: false };
      return { text: JSON.stringify(await checkPurchase(deps, actingInCall(context), asked)) };
    }),
});

const priceLookup = defineTool({
  name: "price_lookup",
  description: "Returns the unit price of a product for an account and a quantity, and where the price comes from.",
  parameters: Type.Object(
    {
      account_id: Id("Of the account."),
      product_id: Id("Of the product."),
      qty: Type.Optional(Quantity),
    },
    closed,
  ),
  effect: "read",
  risk: "reads",
  execute: ({ account_id, product_id, qty = 1 }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const account = sees(access, account_id) ? await findAccount(deps, account_id) : undefined;
      const product = await productById(deps.store, product_id);
      if (account === undefined || product === undefined || product.active === 0) return unknown;
      const rules = await rulesOf(deps.store);
      const price = await accountPrice(deps.store, account.account, product, qty, { rules, now: deps.env.now() });
      const { unit_price_cents, source } = price;
      const catalog_price_cents = product.price_cents;
      return {
        text: JSON.stringify({
          ...{ product_id, qty, unit_price_cents, catalog_price_cents, currency: product.currency, source },
        }),
      };
    }),
});

const createQuote = defineTool({
  name: "create_quote",
  description: "Makes a draft of a quote with the prices of now. The server computes every amount.",
  parameters: Type.Object(
    {
      account_id: Id("Of the account."),
      buyer_id: Id("Of the buyer."),
      items: Type.Array(Type.Object({ product_id: Id("Of the product."), qty: Quantity }, closed), {
        minItems: 1,
        maxItems: 100,
      }),
      notes: Type.Optional(Type.String({ maxLength: 2_000 })),
    },
    closed,
  ),
  effect: "once",
  risk: "writes",
  execute: ({ account_id, buyer_id, items, notes = "" }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      if (!mayAct(access, account_id, buyer_id)) return unknown;
      const quote = await makeQuote(deps, actingInCall(context), { account_id, buyer_id, items, notes });
      return quoteShown(deps, quote);
    }),
});

const quoteGet = defineTool({
  name: "quote_get",
  description: "Returns a quote with its lines, amounts and state.",
  parameters: Type.Object({ quote_id: Id("Of the quote.") }, closed),
  effect: "read",
  risk: "reads",
  execute: ({ quote_id }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const quote = await seenQuote(deps, access, quote_id);
      return quote === undefined ? unknown : quoteShown(deps, quote);
    }),
});

const sendQuoteTool = defineTool({
  name: "send_quote",
  description: "Sends a draft: its prices hold for some days, and it can be accepted.",
  parameters: Type.Object(
    {
      quote_id: Id("Of the quote."),
      valid_days: Type.Optional(Type.Integer({ minimum: 1, maximum: 365, description: "Default 14." })),
    },
    closed,
  ),
  effect: "once",
  risk: "writes",
  execute: ({ quote_id, valid_days = 14 }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const quote = await seenQuote(deps, access, quote_id);
      if (quote === undefined || !mayAct(access, quote.account_id, null)) return unknown;
      return quoteShown(deps, await sendQuote(deps, quote_id, valid_days));
    }),
});

const accept = defineTool({
  name: "accept_quote",
  description: "Accepts a sent quote for its buyer. Above the buyer's limit it waits for another person's approval.",
  parameters: Type.Object({ quote_id: Id("Of the quote."), facts_digest: FactsDigest }, closed),
  effect: "once",
  risk: "spends",
  binds: (args, context: PluginToolContext) => bound(args, quoteFacts(args.quote_id, context)),
  preview: ({ quote_id }, context: PluginToolContext) => quotePreview(quote_id, context),
  execute: ({ quote_id, ...args }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const quote = await seenQuote(deps, access, quote_id);
      if (quote === undefined || !mayAct(access, quote.account_id, null)) return unknown;
      if (!areFactsOf(args, factsOfQuote(quote))) return otherFacts;
      const buyer = access.kind === "buyer" ? access.buyer.id : undefined;
      return quoteShown(deps, await acceptQuote(deps, actingInCall(context), quote_id, buyer));
    }),
});

const convert = defineTool({
  name: "convert_quote",
  description: "Makes the order and the invoice of an accepted quote.",
  parameters: Type.Object({ quote_id: Id("Of the quote."), facts_digest: FactsDigest }, closed),
  effect: "once",
  risk: "spends",
  binds: (args, context: PluginToolContext) => bound(args, quoteFacts(args.quote_id, context)),
  preview: ({ quote_id }, context: PluginToolContext) => quotePreview(quote_id, context),
  execute: ({ quote_id, ...args }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const quote = await seenQuote(deps, access, quote_id);
      if (quote === undefined || !mayAct(access, quote.account_id, null)) return unknown;
      if (!areFactsOf(args, factsOfQuote(quote))) return otherFacts;
      const { invoice } = await convertQuote(deps, actingInCall(context), quote_id);
      return { text: JSON.stringify({ order_id: invoice.order_id, invoice: invoiceView(context.tenantId, invoice) }) };
    }),
});

const invoiceGet = defineTool({
  name: "invoice_get",
  description: "Returns an invoice: amount, due date and status.",
  parameters: Type.Object({ invoice_id: Id("Of the invoice.") }, closed),
  effect: "read",
  risk: "reads",
  execute: ({ invoice_id }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const invoice = await findInvoice(deps, invoice_id);
      if (invoice === undefined || !sees(access, invoice.account_id)) return unknown;
      return shown(deps, "invoice", invoiceView(context.tenantId, invoice));
    }),
});

const pay = defineTool({
  name: "pay_invoice",
  description: "Pays an open invoice at its billing provider. The amount is that of the invoice.",
  parameters: Type.Object({ invoice_id: Id("Of the invoice."), facts_digest: FactsDigest }, closed),
  effect: "once",
  risk: "spends",
  timeoutMs: 60_000,
  binds: (args, context: PluginToolContext) => bound(args, invoiceFacts(args.invoice_id, context)),
  async preview({ invoice_id }, context: PluginToolContext) {
    const facts = await invoiceFacts(invoice_id, context);
    return facts === null ? null : JSON.stringify(facts, null, 2);
  },
  execute: ({ invoice_id, ...args }, context: PluginToolContext) =>
    within(context, async (deps, access) => {
      const invoice = await invoiceToPay(deps, invoice_id);
      if (invoice === undefined || !mayAct(access, invoice.account_id, null)) return unknown;
      if (!areFactsOf(args, factsOfInvoice(invoice))) return otherFacts;
      // An invoice that only svc records has no provider that moves money.
      if (invoice.status === "open" && invoice.provider === "internal")
        return toolError("permission_denied", "this invoice has no billing provider: a person records its payment");
      const payment = { by: "provider", principal_subj: context.principal.sub, manifest_id: context.manifest } as const;
      const paid = await payInvoice(deps, invoice, { ...payment, event_id: null });
      return { text: JSON.stringify(invoiceView(context.tenantId, paid)) };
    }),
});

/** True if the caller may change something for an account, and for this buyer if one is named. */
function mayAct(access: Access, accountId: string, buyerId: string | null): boolean {
  if (access.kind === "staff") return true;
  const { buyer } = access;
  return buyer.account_id === accountId && buyer.role !== "viewer" && (buyerId === null || buyer.id === buyerId);
}

async function seenQuote(deps: SourceDeps, access: Access, id: string): Promise<QuoteRow | undefined> {
  const quote = await presentQuote(deps, id);
  return quote !== undefined && sees(access, quote.account_id) ? quote : undefined;
}

function quoteShown(deps: SourceDeps, quote: QuoteRow): Promise<ToolResult> {
  return shown(deps, "quote", quoteView(deps.store.tenantId, quote), ["catalog"]);
}

/** Returns what an approval of a call on a quote holds for. */
async function quoteFacts(id: string, context: PluginToolContext): Promise<unknown> {
  const deps = depsOfCall(context);
  const access = await accessOf(deps, context);
  const quote = access === null ? undefined : await seenQuote(deps, access, id);
  return quote === undefined ? null : factsOfQuote(quote);
}

function factsOfQuote({ id: quote_id, account_id, buyer_id, total_cents, currency, items }: QuoteRow): unknown {
  return { quote_id, account_id, buyer_id, total_cents, currency, items };
}

async function quotePreview(id: string, context: PluginToolContext): Promise<string | null> {
  const facts = await quoteFacts(id, context);
  return facts === null ? null : JSON.stringify(facts, null, 2);
}

/** Returns what an approval of a payment holds for. */
async function invoiceFacts(id: string, context: PluginToolContext): Promise<unknown> {
  const access = await accessOf(depsOfCall(context), context);
  const invoice = await invoiceById(context.store, id);
  if (access === null || invoice === undefined || !sees(access, invoice.account_id)) return null;
  return factsOfInvoice(invoice);
}

function factsOfInvoice({ id: invoice_id, account_id, amount_cents, currency }: InvoiceRow): unknown {
  return { invoice_id, account_id, amount_cents, currency };
}

/** The tools of businesses. */
export const b2bTools = [
  ...[accountGet, buyerGet, authorityCheck, priceLookup, createQuote, quoteGet, sendQuoteTool, accept, convert],
  ...[invoiceGet, pay],
];
