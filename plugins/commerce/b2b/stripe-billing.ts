import { openStripe, type StripePlace } from "../core/stripe.ts";
import type { InvoiceRow } from "./quotes.ts";

// Invoices at Stripe. Every request has an idempotency key of the invoice, so that a repetition makes nothing twice.

/** The provider refuses, so that a repetition would be refused too. */
export class BillingRefused extends Error {
  constructor(problem: string, options?: ErrorOptions) {
    super(problem, options);
    this.name = "BillingRefused";
  }
}

/** An invoice at the provider. */
export interface Bill {
  readonly external_ref: string;
  readonly hosted_url: string;
}

/** Makes the invoice of an account there, and sends it. Throws BillingRefused for a refusal, another error if the outcome is unknown. */
export async function createBill(
  place: StripePlace,
  tenantId: string,
  invoice: InvoiceRow,
  account: { readonly id: string; readonly name: string },
): Promise<Bill> {
  const client = await openStripe(place);
  const metadata = { tenant_id: tenantId, invoice_id: invoice.id, account_id: account.id };
  const key = (step: string) => ({ idempotencyKey: `svc-${step}-${tenantId}-${invoice.id}` });
  return refusing(async () => {
    const customer = await client.customers.create(
      { name: account.name, metadata: { tenant_id: tenantId, account_id: account.id } },
      key("customer"),
    );
    const made = await client.invoices.create(
      {
        customer: customer.id,
        collection_method: "send_invoice",
        due_date: Math.max(Math.ceil(invoice.due_at / 1_000), Math.ceil(invoice.ts / 1_000) + 3_600),
        currency: invoice.currency,
        auto_advance: true,
        metadata,
      },
      key("invoice"),
    );
    const line = { customer: customer.id, invoice: made.id, amount: invoice.amount_cents, currency: invoice.currency };
    await client.invoiceItems.create({ ...line, description: `Order ${invoice.order_id}` }, key("line"));
    const sent = await client.invoices.finalizeInvoice(made.id, {}, key("finalize"));
    return { external_ref: sent.id, hosted_url: sent.hosted_invoice_url ?? "" };
  });
}

/** Charges the invoice there; returns true if it is paid. Throws as `createBill` does. */
export async function payBill(place: StripePlace, tenantId: string, invoice: InvoiceRow): Promise<boolean> {
  const client = await openStripe(place);
  const idempotencyKey = `svc-pay-${tenantId}-${invoice.id}`;
  const paid = await refusing(() => client.invoices.pay(invoice.external_ref, {}, { idempotencyKey }));
  return paid.status === "paid" && paid.amount_paid === invoice.amount_cents && paid.currency === invoice.currency;
}

async function refusing<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const { statusCode, message } = error as { statusCode?: number; message?: string };
    // 409 and 429 say nothing about the invoice.
    const isRefused = statusCode !== undefined && statusCode >= 400 && statusCode < 500 && statusCode !== 409;
    if (isRefused && statusCode !== 429) throw new BillingRefused(message ?? "refused", { cause: error });
    throw error;
  }
}
