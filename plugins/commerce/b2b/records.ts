import { isCents, isCurrency } from "../core/money.ts";
import type { CompetitorRow } from "../pricing/price-tables.ts";
import type { EntityRecord } from "../sources/connector.ts";
import type { AccountRow, BuyerRow } from "./accounts.ts";
import { buyerRoles, paymentTerms } from "./authority.ts";
import { quoteStates } from "./quote-states.ts";
import type { InvoiceRow, QuoteRow } from "./quotes.ts";

// Reads records of other systems. A missing field has its default; a field of another form makes the whole record unusable, so that no
// authority is decided on a guess.

const textMax = 500;

type AmountsOfQuote = Pick<QuoteRow, "subtotal_cents" | "discount_cents" | "tax_cents" | "total_cents">;

/** Returns the account of a record, or the problem of the record. */
export function readAccount(record: EntityRecord): AccountRow | string {
  const id = idOf(record);
  if (id === null) return "id must be a text of 1 to 128 characters";
  const { name = "", status = "active", payment_terms = "prepaid", credit_limit_cents = 0, discount_bps = 0 } = record;
  const { currency = "usd", metadata = {}, created_at = 0 } = record;
  if (!isText(name)) return "name must be a text";
  if (status !== "active" && status !== "suspended") return "status must be active or suspended";
  if (!isOneOf(paymentTerms, payment_terms)) return `payment_terms must be one of ${paymentTerms.join(", ")}`;
  if (!isCents(credit_limit_cents)) return "credit_limit_cents must be a whole number from 0 to 99,999,999";
  if (!isBps(discount_bps)) return "discount_bps must be a whole number from 0 to 10,000";
  if (!isCurrency(currency)) return "currency must be a known lower-case code";
  return {
    ...{ id, ts: timeOf(created_at), name, status, payment_terms, credit_limit_cents, discount_bps, currency },
    ...{ metadata: isObject(metadata) ? metadata : {}, version: 0 },
  };
}

/** Returns the buyer of a record, or the problem of the record. */
export function readBuyer(record: EntityRecord): BuyerRow | string {
  const id = idOf(record);
  if (id === null) return "id must be a text of 1 to 128 characters";
  const { account_id, email = "", name = "", role = "purchaser", spending_limit_cents = 0, subject = null } = record;
  const { status = "active", created_at = 0 } = record;
  if (!isText(account_id) || account_id === "") return "account_id must be a text";
  if (!isText(email) || !isText(name)) return "email and name must be texts";
  if (!isOneOf(buyerRoles, role)) return `role must be one of ${buyerRoles.join(", ")}`;
  if (!isCents(spending_limit_cents)) return "spending_limit_cents must be a whole number from 0 to 99,999,999";
  if (subject !== null && !isText(subject)) return "subject must be a text or null";
  if (status !== "active" && status !== "suspended") return "status must be active or suspended";
  const ts = timeOf(created_at);
  return { id, ts, account_id, email, name, role, spending_limit_cents, subject, status, version: 0 };
}

/** Returns the quote of a record, for reading only, or the problem of the record. */
export function readQuote(record: EntityRecord): QuoteRow | string {
  const id = idOf(record);
  if (id === null) return "id must be a text of 1 to 128 characters";
  const { account_id = "", buyer_id = "", status = "draft", currency = "usd", total_cents = 0 } = record;
  const { subtotal_cents = total_cents, discount_cents = 0, tax_cents = 0, valid_until = null, notes = "" } = record;
  if (!isText(account_id) || !isText(buyer_id) || !isText(notes)) return "account_id, buyer_id and notes must be texts";
  if (!isOneOf(quoteStates, status)) return `status must be one of ${quoteStates.join(", ")}`;
  if (!isCurrency(currency)) return "currency must be a known lower-case code";
  if (![total_cents, subtotal_cents, discount_cents, tax_cents].every(isCents)) return "amounts must be whole cents";
  const amounts = { subtotal_cents, discount_cents, tax_cents, total_cents } as AmountsOfQuote;
  const ts = timeOf(record.created_at);
  return {
    ...{ id, ts, account_id, buyer_id, status, currency, ...amounts, notes, items: [], version: 0 },
    valid_until: valid_until === null ? null : timeOf(valid_until),
    ...{ approval_id: null, order_id: null, invoice_id: null, thread_id: "", manifest_id: "" },
    updated_at: timeOf(record.updated_at ?? record.created_at),
  };
}

/** Returns the invoice of a record, for reading only, or the problem of the record. */
export function readInvoice(record: EntityRecord): InvoiceRow | string {
  const id = idOf(record);
  if (id === null) return "id must be a text of 1 to 128 characters";
  const { account_id = "", quote_id = "", order_id = "", amount_cents, currency = "usd", terms = "prepaid" } = record;
  const { status = "open", hosted_url = "" } = record;
  if (!isText(account_id) || !isText(quote_id) || !isText(order_id)) return "ids must be texts";
  if (!isCents(amount_cents)) return "amount_cents must be a whole number from 0 to 99,999,999";
  if (!isCurrency(currency)) return "currency must be a known lower-case code";
  if (!isOneOf(paymentTerms, terms)) return `terms must be one of ${paymentTerms.join(", ")}`;
  if (status !== "open" && status !== "paid" && status !== "void") return "status must be open, paid or void";
  return {
    ...{ id, ts: timeOf(record.created_at), account_id, quote_id, order_id, amount_cents, currency, terms, status },
    ...{ due_at: timeOf(record.due_at), paid_at: status === "paid" ? timeOf(record.paid_at) : null },
    ...{ provider: "source", external_ref: id, hosted_url: isText(hosted_url) ? hosted_url : "" },
  };
}

/** Returns the price of a competitor of a record, or the problem of the record. */
export function readCompetitorPrice(record: EntityRecord): CompetitorRow | string {
  const id = idOf(record);
  if (id === null) return "id must be a text of 1 to 128 characters";
  const { product_id, competitor = "", price_cents, currency = "usd" } = record;
  if (!isText(product_id) || product_id === "") return "product_id must be a text";
  if (!isText(competitor)) return "competitor must be a text";
  if (!isCents(price_cents)) return "price_cents must be a whole number from 0 to 99,999,999";
  if (!isCurrency(currency)) return "currency must be a known lower-case code";
  return { id, product_id, competitor, price_cents, currency, updated_at: timeOf(record.updated_at) };
}

/** Returns the id of a record; null if it has none that svc takes. */
export function idOf({ id }: EntityRecord): string | null {
  const text = typeof id === "number" ? String(id) : id;
  return typeof text === "string" && /^[\w.~:@-]{1,128}$/.test(text) ? text : null;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= textMax;
}

function isOneOf<T extends string>(words: readonly T[], value: unknown): value is T {
  return (words as readonly unknown[]).includes(value);
}

function isBps(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 10_000;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function timeOf(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;
}
