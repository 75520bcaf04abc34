import type { Requester } from "../../../actors/tools/services.ts";
import type { Secrets } from "../../../governance/secret-mask.ts";
import { isCents, scaledCents, sumOf, timesCents } from "../core/money.ts";
import type { Carriers, Shipping, ShippingOption } from "../core/shipping-settings.ts";

// The ways to send an order, cheapest first: those of COMMERCE_CARRIERS, else of COMMERCE_SHIPPING.

/** What the price of sending depends on. */
export interface Parcel {
  readonly country: string;
  readonly items: readonly { readonly product_id: string; readonly qty: number }[];
}

/** The settings and services of shipping. */
export interface ShippingDeps {
  readonly shipping: Shipping;
  readonly carriers: Carriers | null;
  /** Sends the request to a live carrier. */
  readonly requester: Pick<Requester, "whole"> | null;
  readonly secrets: Pick<Secrets, "resolve"> | null;
}

/** Returns the options for a parcel, cheapest first. */
export async function shippingOptions(parcel: Parcel, deps: ShippingDeps): Promise<readonly ShippingOption[]> {
  const { carriers, shipping } = deps;
  const found =
    carriers === null ? shipping.options : ((await liveOptions(parcel, deps)) ?? staticOptions(parcel, carriers));
  return found.toSorted((a, b) =>
    a.amount_cents === b.amount_cents ? (a.id < b.id ? -1 : 1) : a.amount_cents < b.amount_cents ? -1 : 1,
  );
}

/** Returns the options of the services of carriers. */
function staticOptions(
  { country, items }: Parcel,
  { carriers, intl_multiplier, domestic_countries }: Carriers,
): ShippingOption[] {
  const units = sumOf(items.map(({ qty }) => qty));
  const factor = domestic_countries.includes(country) ? 1 : intl_multiplier;
  return carriers.flatMap(({ id: carrierId, carrier, services }) =>
    services.map(({ id, title, base_cents, per_item_cents, min_days, max_days }) => {
      const domestic = sumOf([base_cents, timesCents(per_item_cents, units)]);
      const amount_cents = scaledCents(domestic, factor);
      return {
        id: `${carrierId}-${id}`,
        title,
        subtitle: daysText(min_days, max_days),
        carrier,
        amount_cents,
        min_days,
        max_days,
      };
    }),
  );
}

function daysText(least: number, most: number): string {
  return least === most ? `${most} days` : `${least} to ${most} days`;
}

const answerBytesMax = 256 * 1024;

/** Asks the live carrier; null if there is none, or it does not answer as it should. */
async function liveOptions(
  { country, items }: Parcel,
  { carriers, requester, secrets }: ShippingDeps,
): Promise<ShippingOption[] | null> {
  if (carriers?.mode !== "live" || carriers.live === null || requester === null) return null;
  const { url, auth, timeout_ms } = carriers.live;
  try {
    const token = auth === "" ? null : auth.startsWith("secret:") ? await secrets?.resolve(auth) : auth;
    const answer = await requester.whole(
      {
        url,
        method: "POST",
        headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
        body: JSON.stringify({ country, items }),
        timeoutMs: timeout_ms,
      },
      answerBytesMax,
    );
    if (answer.status !== 200) return null;
    return readRates(JSON.parse(Buffer.from(answer.bytes).toString("utf8")));
  } catch {
    return null;
  }
}

/** Returns the rates of a carrier; null if one is malformed, because its amounts are charged. */
function readRates(given: unknown): ShippingOption[] | null {
  const { rates } = (given ?? {}) as { readonly rates?: unknown };
  if (!Array.isArray(rates) || rates.length === 0 || rates.length > 20) return null;
  const read = rates.map((rate): ShippingOption | null => {
    const {
      id,
      carrier = "",
      title,
      amount_cents,
      min_days = 0,
      max_days = 0,
    } = (rate ?? {}) as Partial<ShippingOption>;
    const isNamed =
      typeof id === "string" &&
      /^[A-Za-z0-9_.-]{1,64}$/.test(id) &&
      typeof title === "string" &&
      typeof carrier === "string";
    if (!isNamed || !isCents(amount_cents) || !Number.isSafeInteger(min_days) || !Number.isSafeInteger(max_days))
      return null;
    const texts = {
      title: title.slice(0, 200),
      carrier: carrier.slice(0, 200),
      subtitle: daysText(min_days, max_days),
    };
    return { id, ...texts, amount_cents, min_days, max_days };
  });
  return read.includes(null) ? null : (read as ShippingOption[]);
}
