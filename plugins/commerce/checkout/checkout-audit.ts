import type { PluginAuditType } from "../../../governance/audit-types.ts";

export const commerceOrder: PluginAuditType = {
  name: "commerce_order",
  help: "An order was paid, cancelled or refunded, or a payment does not fit its order.",
};
export const consentRecorded: PluginAuditType = {
  name: "consent_recorded",
  help: "A shopper agreed to the terms, or withdrew this.",
};
