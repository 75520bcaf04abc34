import type { PluginErrorCode } from "../../../bus/errors.ts";

// The codes with which routes of the shop refuse. Codes of svc are used where they fit.

export const brandExists: PluginErrorCode = {
  code: "brand_exists",
  status: 409,
  help: "A brand has this id or this tenant, or the tenant is in use.",
};
export const domainTaken: PluginErrorCode = { code: "domain_taken", status: 409, help: "A brand has this host." };
export const invalidDomain: PluginErrorCode = {
  code: "invalid_domain",
  status: 400,
  help: "The host is no public name, or it is one of this server.",
};
export const brandChanged: PluginErrorCode = {
  code: "brand_changed",
  status: 409,
  retryable: true,
  help: "Another request has changed the brand; read it again.",
};
export const invalidCatalog: PluginErrorCode = {
  code: "invalid_catalog",
  status: 400,
  help: "The catalog cannot be read; detail has the reason. Nothing has changed.",
};
export const catalogFull: PluginErrorCode = {
  code: "catalog_full",
  status: 409,
  help: "The catalog has as many products as SVC_COMMERCE_PRODUCTS_MAX allows; earlier rows are stored.",
};
export const storefrontNotFound: PluginErrorCode = {
  code: "storefront_not_found",
  status: 404,
  help: "No brand answers at this path or host.",
};
export const storefrontUnavailable: PluginErrorCode = {
  code: "storefront_unavailable",
  status: 403,
  help: "The brand is disabled.",
};
export const paymentsUnset: PluginErrorCode = {
  code: "payments_not_configured",
  status: 503,
  help: "The server has no secret of the payment provider.",
};
export const shopUnset: PluginErrorCode = {
  code: "shop_not_configured",
  status: 503,
  help: "The server stores no manifests, so it can have no brands.",
};
export const unsignedPayment: PluginErrorCode = {
  code: "invalid_payment_signature",
  status: 400,
  help: "The event is not signed by the payment provider, or the signature is old.",
};

/** All of them, for the plugin. */
export const shopErrors: readonly PluginErrorCode[] = [
  brandExists,
  domainTaken,
  invalidDomain,
  brandChanged,
  invalidCatalog,
  catalogFull,
  storefrontNotFound,
  storefrontUnavailable,
  paymentsUnset,
  shopUnset,
  unsignedPayment,
];
