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
import type { PriceSource } from "../pricing/prices.ts";
import { paymentTerms } from "./authority.ts";
import { type QuoteState, quoteStates } from "./quote-states.ts";

// Quotes and invoices, as rows of svc. The lines of a quote never change; a move to another state is refused with conflict if the quote
// has changed since it was read.

/** A line of a quote. */
export interface QuoteItem {
  readonly product_id: string;
  readonly title: string;
  readonly qty: number;
  readonly unit_price_cents: number;
  readonly price_source: PriceSource;
  readonly discount_cents: number;
  readonly line_total_cents: number;
}

/** The quotes. */
export const quoteTable = table(
  "commerce_quotes",
  {
    id: text,
    ts: integer,
    account_id: text,
    buyer_id: text,
    status: oneOf(...quoteStates),
    currency: text,
    subtotal_cents: integer,
    discount_cents: integer,
    tax_cents: integer,
    total_cents: integer,
    /** The prices hold until then; null before the quote is sent. */
    valid_until: nullable(integer),
    approval_id: nullable(text),
    order_id: nullable(text),
    invoice_id: nullable(text),
    notes: text,
    items: json<readonly QuoteItem[]>(),
    /** The thread and manifest of the agent that made it; empty for a request. */
    thread_id: text,
    manifest_id: text,
    updated_at: integer,
    version: integer,
  },
  ({ text: notes }) => ({
    ...{ id: "row", ts: 5, account_id: "row", buyer_id: "row", status: "sent" as const, currency: "usd" },
    ...{ subtotal_cents: 5, discount_cents: 5, tax_cents: 5, total_cents: 5, valid_until: 5, approval_id: "row" },
    ...{
      order_id: "row",
      invoice_id: "row",
      notes,
      items: [],
      thread_id: "",
      manifest_id: "",
      updated_at: 5,
      version: 5,
    },
  }),
);

/** The invoices. */
export const invoiceTable = table(
  "commerce_invoices",
  {
    id: text,
    ts: integer,
    account_id: text,
    quote_id: text,
    order_id: text,
    amount_cents: integer,
    currency: text,
    terms: oneOf(...paymentTerms),
    status: oneOf("open", "paid", "void"),
    due_at: integer,
    paid_at: nullable(integer),
    provider: text,
    /** Id of the invoice at the provider; empty for none. */
    external_ref: text,
    hosted_url: text,
  },
  ({ text: hosted_url }) => ({
    ...{ id: "row", ts: 5, account_id: "row", quote_id: "row", order_id: "row", amount_cents: 5, currency: "usd" },
    ...{ terms: "net30" as const, status: "open" as const, due_at: 5, paid_at: null, provider: "internal" },
    ...{ external_ref: hosted_url, hosted_url },
  }),
);

/** A stored quote. */
export type QuoteRow = RowIn<typeof quoteTable>;
/** A stored invoice. */
export type InvoiceRow = RowIn<typeof invoiceTable>;

const moveQuote = tenantSql(
  "commerce_quote_move",
  `UPDATE commerce_quotes SET status = ?, buyer_id = ?, valid_until = ?, approval_id = ?, order_id = ?, invoice_id = ?, updated_at = ?,
     version = version + 1
   WHERE tenant_id = :tenant AND id = ? AND status = ? AND version = ?`,
);
const payInvoice = tenantSql(
  "commerce_invoice_pay",
  "UPDATE commerce_invoices SET status = 'paid', paid_at = ? WHERE tenant_id = :tenant AND id = ? AND status = 'open'",
);
const linkInvoice = tenantSql(
  "commerce_invoice_link",
  `UPDATE commerce_invoices SET provider = ?, external_ref = ?, hosted_url = ? WHERE tenant_id = :tenant AND id = ?`,
);

/** Returns a page of quotes, newest first; with `account_id`, those of the account. */
export const quotePage = list(quoteTable, ["account_id"], { indexes: { account_id: "commerce_quotes_account" } }).page;
/** Returns a quote. */
export const quoteById = selectOne(quoteTable, ["id"]);
/** Returns the operation that stores a new quote. */
export const insertQuoteOp: (store: TenantStore, row: QuoteRow) => WriteOp = insertInto(quoteTable);
/** Returns a page of invoices, newest first; with `account_id`, those of the account. */
export const invoicePage = list(invoiceTable, ["account_id"], {
  indexes: { account_id: "commerce_invoices_account" },
}).page;
/** Returns an invoice. */
export const invoiceById = selectOne(invoiceTable, ["id"]);
/** Returns the operation that stores a new invoice. */
export const insertInvoiceOp: (store: TenantStore, row: InvoiceRow) => WriteOp = insertInto(invoiceTable);

/** What a move changes besides the state. */
export type QuoteChange = Partial<
  Pick<QuoteRow, "buyer_id" | "valid_until" | "approval_id" | "order_id" | "invoice_id">
>;

/** Returns the operation that moves a quote, unless it has changed since it was read. */
export function moveQuoteOp(
  store: TenantStore,
  quote: QuoteRow,
  status: QuoteState,
  change: QuoteChange,
  now: number,
): WriteOp {
  const { buyer_id, valid_until, approval_id, order_id, invoice_id } = { ...quote, ...change };
  const values = [status, buyer_id, valid_until, approval_id, order_id, invoice_id, now];
  return store.op(moveQuote, [...values, quote.id, quote.status, quote.version], 1);
}

/** Returns the operation that pays an open invoice. Its batch refuses with conflict if it is not open. */
export function payInvoiceOp(store: TenantStore, id: string, now: number): WriteOp {
  return store.op(payInvoice, [now, id], 1);
}

/** Returns the operation that stores which invoice of a provider an invoice is. */
export function linkInvoiceOp(
  store: TenantStore,
  id: string,
  { provider, external_ref, hosted_url }: Pick<InvoiceRow, "provider" | "external_ref" | "hosted_url">,
): WriteOp {
  return store.op(linkInvoice, [provider, external_ref, hosted_url, id]);
}
