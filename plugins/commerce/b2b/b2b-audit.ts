import type { PluginAuditType } from "../../../governance/audit-types.ts";

// The types of audit rows of accounts, quotes and invoices.

export const purchaseCheckAudit: PluginAuditType = {
  name: "b2b_purchase_check",
  help: "A buyer's authority for a purchase was asked; the payload has the decision and its reason.",
};
export const quoteAudit: PluginAuditType = {
  name: "b2b_quote",
  help: "A quote became an order with an invoice.",
};
export const invoiceAudit: PluginAuditType = {
  name: "b2b_invoice",
  help: "An invoice was paid; the payload says how.",
};
export const accountAudit: PluginAuditType = {
  name: "b2b_account",
  help: "An account, a buyer, a contract price, a pricing rule or the billing provider was changed.",
};

export const b2bAudits = [purchaseCheckAudit, quoteAudit, invoiceAudit, accountAudit];
