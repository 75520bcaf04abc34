import { bool, forTests, int, json, list, text, unprefixed, url } from "../../../governance/settings/setting.ts";
import { type Carriers, defaultShipping, readCarriers, readShipping, type Shipping } from "./shipping-settings.ts";

// The settings that several folders read. Names of the specification have no SVC_ (`unprefixed`).

/** The shipping options. */
export const shippingSetting = unprefixed(
  json<Shipping>(
    "COMMERCE_SHIPPING",
    defaultShipping,
    "Shipping options: {options: [{id, title, subtitle, carrier, amount_cents, min_days, max_days}], free_threshold_cents}.",
    readShipping,
  ),
);
/** Carriers, which replace the shipping options; null without any. */
export const carriersSetting = unprefixed(
  json<Carriers | null>(
    "COMMERCE_CARRIERS",
    null,
    "Carriers: {mode: static or live, carriers: [{id, carrier, services}], live: {url}, intl_multiplier, domestic_countries}.",
    readCarriers,
  ),
);
/** Countries to which orders are sent. */
export const shipCountriesSetting = unprefixed(
  list("COMMERCE_SHIP_COUNTRIES", ["US"], "Countries to which orders are sent, as ISO 3166 codes.", {
    item(code) {
      if (!/^[A-Za-z]{2}$/.test(code)) throw new Error("must list countries of two letters, such as US");
      return code.toUpperCase();
    },
  }),
);
/** The flat tax. */
export const taxBpsSetting = unprefixed(
  int("COMMERCE_TAX_BPS", 0, [0, 10_000], "Tax on subtotal plus shipping in basis points; 875 is 8.75 %."),
);
/** True if a checkout needs a consent. */
export const requireConsentSetting = unprefixed(
  bool("COMMERCE_REQUIRE_CONSENT", false, "Refuses a checkout until the shopper has agreed to the terms."),
);
/** The key of the payment provider. */
export const stripeKeySetting = unprefixed(
  text("STRIPE_SECRET_KEY", "", "Key of the payment provider; without it nothing can be paid.", { secret: true }),
);
/** The secret of the payment provider's events. */
export const stripeWebhookSecretSetting = unprefixed(
  text("STRIPE_WEBHOOK_SECRET", "", "Secret with which the payment provider signs its events.", { secret: true }),
);
/** Another address of the payment provider. */
export const stripeApiBaseSetting = forTests(
  unprefixed(
    url("STRIPE_API_BASE", "Address of a stand-in for the payment provider, for tests; refused in production."),
  ),
);
/** The page after a payment. */
export const stripeSuccessUrlSetting = unprefixed(
  url("STRIPE_SUCCESS_URL", "Page to which the payment page returns after a payment.", "https://example.com/thanks"),
);
/** The page after a cancelled payment. */
export const stripeCancelUrlSetting = unprefixed(
  url("STRIPE_CANCEL_URL", "Page to which the payment page returns without a payment.", "https://example.com/cart"),
);
/** True if the payment provider computes the tax. */
export const stripeAutomaticTaxSetting = unprefixed(
  bool("STRIPE_AUTOMATIC_TAX", false, "Lets the payment page compute the tax instead of COMMERCE_TAX_BPS."),
);
/** Products that a tenant may have. */
export const productsMaxSetting = int(
  "COMMERCE_PRODUCTS_MAX",
  200_000,
  [1, 10_000_000],
  "Products that the catalog of a brand may have.",
);
/** The manifest from which those of brands are made. */
export const baseManifestSetting = text(
  "COMMERCE_BASE_MANIFEST",
  "d2c-buyer",
  "Manifest from which the manifests of brands are made.",
);

/** Days after which the addresses of shoppers are removed. */
export const retentionDaysSetting = int(
  "COMMERCE_RETENTION_DAYS",
  0,
  [0, 36_500],
  "Days after which e-mail addresses are removed from orders; 0 keeps them.",
);

/** All of them, for the plugin. */
export const shopSettings = [
  shippingSetting,
  carriersSetting,
  shipCountriesSetting,
  taxBpsSetting,
  requireConsentSetting,
  stripeKeySetting,
  stripeWebhookSecretSetting,
  stripeApiBaseSetting,
  stripeSuccessUrlSetting,
  stripeCancelUrlSetting,
  stripeAutomaticTaxSetting,
  productsMaxSetting,
  baseManifestSetting,
  retentionDaysSetting,
];
