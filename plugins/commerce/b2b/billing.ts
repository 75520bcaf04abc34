import { SvcError } from "../../../bus/errors.ts";
import { auditOp } from "../../../governance/audit.ts";
import { fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import { oneOf, text, unprefixed } from "../../../governance/settings/setting.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import { requestMs, type TenantStore, type WriteOp } from "../../../storage/store/store.ts";
import type { PluginRunServices } from "../../plugin.ts";
import { stripeApiBaseSetting, stripeKeySetting, stripeWebhookSecretSetting } from "../core/shop-settings.ts";
import type { StripePlace } from "../core/stripe.ts";
import { recordEvent, type SourceDeps, tokenOf } from "../sources/entity-source.ts";
import { findAccount, refuseForeign } from "./account-source.ts";
import { paidOp } from "./accounts.ts";
import { invoiceAudit } from "./b2b-audit.ts";
import { billingFailed, invoiceNotOpen } from "./b2b-codes.ts";
import {
  type BillingConfig,
  type BillingTaskRow,
  billingSettingsOf,
  claimTaskOp,
  deleteOldBillingEvents,
  dueTasks,
  endTaskOp,
  insertEventOp,
  tellOp,
} from "./billing-table.ts";
import { payOrderOps } from "./quote-order.ts";
import { type InvoiceRow, invoiceById, linkInvoiceOp, payInvoiceOp } from "./quotes.ts";
import { BillingRefused, createBill, payBill } from "./stripe-billing.ts";

// Invoices at billing providers. `internal` only records them. `stripe` also makes an invoice there after the order is stored: a task
// tells it until it answers. A provider that refuses (4xx) leaves the invoice to `internal`.

/** The providers. */
export const billingProviders = ["internal", "stripe"] as const;
/** A provider. */
export type BillingProvider = (typeof billingProviders)[number];

/** The provider of tenants that set none. */
export const defaultProviderSetting = unprefixed(
  oneOf("BILLING_PROVIDER_DEFAULT", billingProviders, "internal", "Billing provider of tenants that set none."),
);
/** The secret of events of invoices. */
export const billingSecretSetting = unprefixed(
  text(
    "STRIPE_BILLING_WEBHOOK_SECRET",
    "",
    "Secret with which Stripe signs events of invoices; without it STRIPE_WEBHOOK_SECRET.",
    {
      secret: true,
    },
  ),
);
/** The names in the configuration of each provider. */
export const configNames: Readonly<Record<BillingProvider, readonly string[]>> = {
  internal: [],
  stripe: ["secret_key", "webhook_secret"],
};

/** Returns the provider of a tenant with its configuration. */
export async function providerOf({
  store,
  settings,
}: Pick<SourceDeps, "store" | "settings">): Promise<{ provider: BillingProvider; config: BillingConfig }> {
  const row = await billingSettingsOf(store);
  const named = row?.provider ?? settingOf(settings, defaultProviderSetting);
  const provider = billingProviders.find((name) => name === named) ?? "internal";
  return { provider, config: row?.config ?? {} };
}

/** Returns the operations that queue an invoice for its provider. */
export function billingOps(store: TenantStore, invoice: InvoiceRow, now: number): WriteOp[] {
  return invoice.provider === "internal" ? [] : [tellOp(store, invoice.id, invoice.provider, now)];
}

/** Where and how an invoice was paid. */
export interface Payment {
  readonly by: "request" | "provider" | "event" | "source";
  readonly principal_subj: string;
  readonly manifest_id: string;
  /** The event that says so; null for none. */
  readonly event_id: string | null;
}

/**
 * Records that an invoice is paid: its order is paid too, and the account's open amount falls. Has no effect on a paid one. Refuses with
 * invoice_not_open for a void one.
 */
export async function settleInvoice(deps: SourceDeps, id: string, payment: Payment): Promise<InvoiceRow> {
  const { store, env } = deps;
  for (let tries = 0; ; tries++) {
    const invoice = await invoiceById(store, id);
    if (invoice === undefined) throw new SvcError("not_found");
    if (invoice.status === "paid") return invoice;
    if (invoice.status === "void") throw new SvcError(invoiceNotOpen);
    const now = env.now();
    const { event_id, principal_subj, manifest_id, by } = payment;
    const { account_id, order_id, amount_cents } = invoice;
    const payload = { invoice_id: id, account_id, order_id, amount_cents, by, ...(event_id !== null && { event_id }) };
    const audited = { event_type: invoiceAudit, status: "paid", manifest_id, principal_subj, payload };
    try {
      await store.write(
        [
          ...(event_id === null ? [] : [insertEventOp(store, { event_id, received_at: now })]),
          payInvoiceOp(store, id, now),
          paidOp(store, account_id, amount_cents),
          ...(await payOrderOps(deps, order_id, id, now)),
          endTaskOp(store, id),
          auditOp(store, deps, audited),
        ],
        requestMs,
      );
    } catch (error) {
      // Another request paid it first, or moved its order.
      if (SvcError.from(error).code !== "conflict" || tries >= triesMax) throw error;
    }
  }
}

const triesMax = 3;

/** Returns an invoice that can be paid here; undefined without one. Refuses with source_not_native if another system keeps invoices. */
export async function invoiceToPay(deps: SourceDeps, id: string): Promise<InvoiceRow | undefined> {
  await refuseForeign(deps, "invoice");
  return invoiceById(deps.store, id);
}

/** Pays an invoice for a person: at its provider, or as a record if it has none. */
export async function payInvoice(deps: SourceDeps, invoice: InvoiceRow, payment: Payment): Promise<InvoiceRow> {
  if (invoice.status !== "open") return settleInvoice(deps, invoice.id, payment);
  if (invoice.provider !== "stripe") return settleInvoice(deps, invoice.id, payment);
  if (invoice.external_ref === "") throw new SvcError(billingFailed, { detail: "the provider does not have it yet" });
  const place = await stripePlace(deps);
  if (place === null) throw new SvcError(billingFailed, { detail: "the provider has no key" });
  const isPaid = await payBill(place, deps.store.tenantId, invoice).catch((error: unknown) => {
    const detail = error instanceof BillingRefused ? "the provider refuses" : "the provider does not answer";
    throw new SvcError(billingFailed, { detail }, { cause: error });
  });
  if (!isPaid) throw new SvcError(billingFailed, { detail: "the provider did not charge the whole amount" });
  return settleInvoice(deps, invoice.id, { ...payment, by: "provider" });
}

/** Returns the secrets that may sign events about invoices of a tenant. */
export async function eventSecrets(deps: SourceDeps): Promise<string[]> {
  const { config } = await providerOf(deps);
  // A tenant with its own secret accepts that one only.
  if (config.webhook_secret !== undefined) return [(await tokenOf(deps, config.webhook_secret)) ?? ""].filter(Boolean);
  return deploymentSecrets(deps.settings);
}

/** Returns the secrets of the deployment for events about invoices. */
export function deploymentSecrets(settings: SourceDeps["settings"]): string[] {
  const own = settingOf(settings, billingSecretSetting);
  return [own === "" ? settingOf(settings, stripeWebhookSecretSetting) : own].filter(Boolean);
}

async function stripePlace(deps: SourceDeps): Promise<StripePlace | null> {
  const { config } = await providerOf(deps);
  const { settings, outgoing, store } = deps;
  const key =
    config.secret_key === undefined ? settingOf(settings, stripeKeySetting) : await tokenOf(deps, config.secret_key);
  if (key === null || key === "") return null;
  const base = settingOf(settings, stripeApiBaseSetting);
  const policy = base === "" ? ("public" as const) : ("operator" as const);
  const rules = { tenantId: store.tenantId, policy, allowHosts: [], credentials: [], onEvent: recordEvent(deps) };
  return { key, base, send: fetchWith(outgoing, rules) };
}

const claimMs = 60_000;
const retryMsMax = 3_600_000;
const lookMs = 5_000;
const tasksMax = 20;
/** Providers repeat events for days. */
const eventsKeptMs = 60 * 86_400_000;

/** Tells providers of invoices that are due; returns the milliseconds until the next look. */
export async function tellProviders(services: PluginRunServices): Promise<number> {
  const { store, env } = services;
  const due = await dueTasks(store, env.now(), tasksMax);
  for (const { tenant_id, task } of due) await tellProvider({ ...services, store: store.tenant(tenant_id) }, task);
  await deleteOldBillingEvents(store, env.now() - eventsKeptMs);
  return due.length === tasksMax ? 0 : lookMs;
}

async function tellProvider(deps: SourceDeps & Pick<PluginRunServices, "log">, task: BillingTaskRow): Promise<void> {
  const { store, env } = deps;
  const wait = Math.min(retryMsMax, claimMs * 2 ** Math.min(task.attempts, 6));
  try {
    await store.write([claimTaskOp(store, task, env.now() + wait)]);
  } catch {
    // Another process has it.
    return;
  }
  const invoice = await invoiceById(store, task.invoice_id);
  if (invoice?.status !== "open" || invoice.external_ref !== "") {
    await store.write([endTaskOp(store, task.invoice_id)]);
    return;
  }
  try {
    const place = await stripePlace(deps);
    if (place === null) throw new BillingRefused("there is no key");
    const account = await findAccount(deps, invoice.account_id);
    const name = account?.account.name ?? invoice.account_id;
    const bill = await createBill(place, store.tenantId, invoice, { id: invoice.account_id, name });
    await store.write([
      linkInvoiceOp(store, invoice.id, { provider: "stripe", ...bill }),
      endTaskOp(store, invoice.id),
    ]);
  } catch (error) {
    if (!(error instanceof BillingRefused)) {
      deps.log.warn(
        { err: error, invoice: invoice.id },
        "the billing provider does not answer; the invoice is told again",
      );
      return;
    }
    deps.count("svc_commerce_billing_degraded_total", { provider: task.provider });
    deps.log.warn({ err: error, invoice: invoice.id }, "the billing provider refuses an invoice; svc records it alone");
    const internal = { provider: "internal", external_ref: "", hosted_url: "" };
    await store.write([linkInvoiceOp(store, invoice.id, internal), endTaskOp(store, invoice.id)]);
  }
}
