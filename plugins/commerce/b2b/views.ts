import type { ContractRow, RuleRow } from "../pricing/price-tables.ts";
import type { AccountRow, BuyerRow } from "./accounts.ts";
import type { InvoiceRow, QuoteRow } from "./quotes.ts";

// How accounts, buyers, quotes and invoices look to callers.

/** Returns an account as it is shown. */
export function accountView(tenant_id: string, row: AccountRow, balance_cents: number) {
  const { id, name, status, payment_terms, credit_limit_cents, discount_bps, currency, metadata, ts } = row;
  return {
    ...{ tenant_id, id, name, status, payment_terms, credit_limit_cents, balance_cents, discount_bps, currency },
    ...{ metadata, created_at: ts },
  };
}

/** Returns a buyer as it is shown. */
export function buyerView(tenant_id: string, row: BuyerRow) {
  const { id, account_id, email, name, role, spending_limit_cents, subject, status, ts } = row;
  return { tenant_id, id, account_id, email, name, role, spending_limit_cents, subject, status, created_at: ts };
}

/** Returns a contract price as it is shown. */
export function contractView(tenant_id: string, row: ContractRow) {
  return { tenant_id, ...row };
}

/** Returns a pricing rule as it is shown. */
export function ruleView({ ts, active, ...row }: RuleRow) {
  return { ...row, active: active === 1, created_at: ts };
}

/** Returns a quote as it is shown. */
export function quoteView(tenant_id: string, row: QuoteRow) {
  const { ts, thread_id: _, manifest_id: __, version: ___, updated_at, ...quote } = row;
  return { tenant_id, ...quote, created_at: ts, updated_at };
}

/** Returns an invoice as it is shown. */
export function invoiceView(tenant_id: string, { ts, ...row }: InvoiceRow) {
  return { tenant_id, ...row, created_at: ts };
}
