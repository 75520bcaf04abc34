import type { PluginErrorCode } from "../../../bus/errors.ts";

// The codes with which accounts, quotes and invoices refuse.

export const accountExists: PluginErrorCode = { code: "account_exists", status: 409, help: "The id is taken." };
export const accountInUse: PluginErrorCode = {
  code: "account_in_use",
  status: 409,
  help: "The account has open invoices: pay or void them first.",
};
export const accountNotFound: PluginErrorCode = {
  code: "account_not_found",
  status: 404,
  help: "There is no account of this id.",
};
export const buyerExists: PluginErrorCode = {
  code: "buyer_exists",
  status: 409,
  help: "The id or the subject belongs to another buyer.",
};
export const buyerNotFound: PluginErrorCode = {
  code: "buyer_not_found",
  status: 404,
  help: "The account has no buyer of this id.",
};
export const accountOrBuyerNotFound: PluginErrorCode = {
  code: "account_or_buyer_not_found",
  status: 404,
  help: "There is no such account or no such buyer.",
};
export const buyerNotInAccount: PluginErrorCode = {
  code: "buyer_not_in_account",
  status: 409,
  help: "The buyer belongs to another account.",
};
export const accountOrBuyerMissing: PluginErrorCode = {
  code: "account_or_buyer_missing",
  status: 409,
  help: "The account or the buyer of the quote is gone.",
};
export const pricingFailed: PluginErrorCode = {
  code: "pricing_failed",
  status: 400,
  help: "The lines cannot be priced; detail lists the problems.",
};
const productNotFound: PluginErrorCode = {
  code: "product_not_found",
  status: 404,
  help: "There is no product of this id.",
};
export const invalidQuoteState: PluginErrorCode = {
  code: "invalid_quote_state",
  status: 409,
  help: "The quote is in another state; detail has it.",
};
export const quoteExpired: PluginErrorCode = {
  code: "expired",
  status: 409,
  help: "The quote was valid until an earlier time; make a new one.",
};
export const purchaseNotAuthorized: PluginErrorCode = {
  code: "not_authorized",
  status: 409,
  help: "The buyer may not purchase for this amount; detail says why.",
};
export const quoteNotReady: PluginErrorCode = {
  code: "not_ready",
  status: 409,
  retryable: true,
  help: "The quote waits for an approval; detail has its id and status.",
};
export const unknownProvider: PluginErrorCode = {
  code: "unknown_provider",
  status: 400,
  help: "There is no billing provider of this name; detail lists them.",
};
export const billingNotConfigured: PluginErrorCode = {
  code: "billing_not_configured",
  status: 503,
  help: "The server has no secret for events of the billing provider.",
};
export const invalidBillingSignature: PluginErrorCode = {
  code: "invalid_billing_signature",
  status: 400,
  help: "The signature is missing, does not match the body, or is too old.",
};
export const billingFailed: PluginErrorCode = {
  code: "billing_failed",
  status: 502,
  retryable: true,
  help: "The billing provider did not take the request; detail says why.",
};
export const invoiceNotOpen: PluginErrorCode = {
  code: "invoice_not_open",
  status: 409,
  help: "The invoice is void.",
};
export const rulesFull: PluginErrorCode = {
  code: "pricing_rules_full",
  status: 409,
  help: "The tenant has as many pricing rules as it may have.",
};

/** All codes. */
export const b2bCodes = [
  ...[accountExists, accountInUse, accountNotFound, buyerExists, buyerNotFound, accountOrBuyerNotFound],
  ...[buyerNotInAccount, accountOrBuyerMissing, pricingFailed, productNotFound, invalidQuoteState, quoteExpired],
  ...[purchaseNotAuthorized, quoteNotReady, unknownProvider, billingNotConfigured, billingFailed, invoiceNotOpen],
  ...[rulesFull, invalidBillingSignature],
];
