import type { Stripe as StripeClient } from "stripe";
import type { Fetch } from "../../../governance/egress/sdk-fetch.ts";
import { type Settings, settingOf } from "../../../governance/settings/settings.ts";
import { stripeApiBaseSetting, stripeKeySetting } from "../core/shop-settings.ts";

// The payment provider. The library loads at the first use.

/** Version of the provider's API whose objects this code reads. */
const apiVersion = "2026-10-28.endive";
const timeoutMs = 20_000;

/** The operations of the provider that the shop uses. */
export type Payments = Pick<
  StripeClient,
  "checkout" | "paymentIntents" | "refunds" | "invoices" | "customers" | "invoiceItems"
>;

/** Returns the payment provider; null without STRIPE_SECRET_KEY. `send` sends the requests. */
export async function openPayments(settings: Settings, send: Fetch): Promise<Payments | null> {
  const key = settingOf(settings, stripeKeySetting);
  if (key === "") return null;
  const { Stripe } = await import("stripe");
  const base = settingOf(settings, stripeApiBaseSetting);
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
      ...(at.port !== "" && { port: Number(at.port) }),
    }),
  });
}

/** An event of the provider, as far as the shop reads it. */
export interface PaymentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly object: Readonly<Record<string, unknown>> };
}

/** Returns the event of a body that the provider has signed; null if the signature does not fit or is older than five minutes. */
export async function readPaymentEvent(body: Buffer, signature: string, secret: string): Promise<PaymentEvent | null> {
  const { Stripe } = await import("stripe");
  try {
    return Stripe.webhooks.constructEvent(body, signature, secret) as unknown as PaymentEvent;
  } catch {
    return null;
  }
}
