import type { Stripe as StripeClient } from "stripe";
import type { Fetch } from "../../../governance/egress/sdk-fetch.ts";
import { type Settings, settingOf } from "../../../governance/settings/settings.ts";
import { stripeApiBaseSetting, stripeKeySetting } from "./shop-settings.ts";

// The payment provider. The library loads at the first use.

/** Version of the provider's API whose objects this code reads. */
const apiVersion = "2026-10-28.endive";
const timeoutMs = 20_000;

/** The operations of the provider that the shop uses. */
export type Payments = Pick<
  StripeClient,
  "checkout" | "paymentIntents" | "refunds" | "invoices" | "customers" | "invoiceItems"
>;

/** The way to the provider with one key. */
export interface StripePlace {
  readonly key: string;
  /** The address of the API; empty for the provider's own. */
  readonly base: string;
  /** Sends the requests. */
  readonly send: Fetch;
}

/** Returns the payment provider of the deployment; null without STRIPE_SECRET_KEY. */
export async function openPayments(settings: Settings, send: Fetch): Promise<Payments | null> {
  const key = settingOf(settings, stripeKeySetting);
  return key === "" ? null : openStripe({ key, base: settingOf(settings, stripeApiBaseSetting), send });
}

/** Returns the payment provider at a place. */
export async function openStripe({ key, base, send }: StripePlace): Promise<Payments> {
  const { Stripe } = await import("stripe");
  const at = base === "" ? null : new URL(base);
  return new Stripe(key, {
    apiVersion,
    maxNetworkRetries: 0,
    telemetry: false,
    timeout: timeoutMs,
    httpClient: Stripe.createFetchHttpClient(send as never),
    ...(at !== null && {
      protocol: at.protocol === "http:" ? "http" : "https",
      host: at.hostname,
      port: Number(at.port) || (at.protocol === "http:" ? 80 : 443),
    }),
  });
}

/** An event of the provider, as far as the shop reads it. */
export interface PaymentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly object: Readonly<Record<string, unknown>> };
}

/**
 * Returns the event of a body that the provider has signed with one of the secrets; null if no signature fits or it is older than five
 * minutes.
 */
export async function readPaymentEvent(
  body: Buffer,
  signature: string,
  secrets: readonly string[],
): Promise<PaymentEvent | null> {
  const { Stripe } = await import("stripe");
  for (const secret of secrets) {
    try {
      return Stripe.webhooks.constructEvent(body, signature, secret) as unknown as PaymentEvent;
    } catch {
      // Another secret may fit.
    }
  }
  return null;
}
