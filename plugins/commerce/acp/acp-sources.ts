import type { OutgoingRequest } from "../../../governance/egress/outgoing.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { PluginRunServices } from "../../plugin.ts";
import { brandByStorefront } from "../brands/brand-lookup.ts";
import { productsById } from "../catalog/products.ts";
import { shippingOptions } from "../checkout/shipping.ts";
import { shippingOf, sumOf, timesCents } from "../core/money.ts";
import { carriersSetting, shipCountriesSetting, shippingSetting, taxBpsSetting } from "../core/shop-settings.ts";
import { withPublicPrices } from "../pricing/price-lookup.ts";
import { type ComputedSession, computeSession, type OfferedShipping } from "./acp-session.ts";
import type { AcpGiven } from "./sessions.ts";

/** The services that a session is computed with; those of a request or of a task. */
export type AcpDeps = Pick<PluginRunServices, "settings" | "store" | "env" | "mask" | "outgoing" | "secrets" | "log">;

/** The rules of requests to the services that the operator names. */
export function operatorRules(tenantId: string) {
  return { tenantId, policy: "operator", allowHosts: [], credentials: [], onEvent() {} } as const;
}

/** Computes a session of the merchant with the current catalog. */
export async function sessionOf(
  id: string,
  given: AcpGiven,
  tenantId: string,
  deps: AcpDeps,
): Promise<ComputedSession> {
  const { settings, store, env } = deps;
  const tenant = store.tenant(tenantId);
  const rows = await productsById(
    tenant,
    given.items.map((item) => item.id),
  );
  const products = await withPublicPrices(tenant, rows.values(), env.now());
  const subtotal = sumOf(given.items.map((item) => timesCents(products.get(item.id)?.price_cents ?? 0, item.quantity)));
  const brand = await brandByStorefront(store, tenantId);
  const { terms_url = "", privacy_url = "" } = brand?.identity.consent ?? {};
  const links = [
    ...(terms_url === "" ? [] : [{ type: "terms_of_use", url: terms_url }]),
    ...(privacy_url === "" ? [] : [{ type: "privacy_policy", url: privacy_url }]),
  ];
  const shipping = await offeredShipping(given, subtotal, tenantId, deps);
  return computeSession({
    ...{ id, given, products, shipping, links },
    taxBps: settingOf(settings, taxBpsSetting),
    now: env.now(),
  });
}

/** Returns the ways to deliver to the address, cheapest first; none without an address, or to a country to which nothing is sent. */
async function offeredShipping(
  { items, fulfillment_address }: AcpGiven,
  subtotal: number,
  tenantId: string,
  { settings, outgoing, secrets }: AcpDeps,
): Promise<readonly OfferedShipping[]> {
  const country = fulfillment_address?.country.toUpperCase();
  if (country === undefined || !settingOf(settings, shipCountriesSetting).includes(country)) return [];
  const shipping = settingOf(settings, shippingSetting);
  const parcel = { country, items: items.map(({ id, quantity }) => ({ product_id: id, qty: quantity })) };
  const carriers = settingOf(settings, carriersSetting);
  const rules = operatorRules(tenantId);
  const requester = {
    whole: (request: OutgoingRequest, bytesMax: number) => outgoing.whole(rules, request, bytesMax),
  };
  const options = await shippingOptions(parcel, { shipping, carriers, requester, secrets });
  return options.map((option, at) => ({
    ...option,
    amount_cents: shippingOf(option, at === 0, subtotal, shipping.free_threshold_cents),
  }));
}
