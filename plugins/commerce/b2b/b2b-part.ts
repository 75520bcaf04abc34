import type { CommercePart } from "../core/part.ts";
import { competitorTable, contractTable, ruleTable } from "../pricing/price-tables.ts";
import { accountsMigration } from "./0010_commerce_accounts.ts";
import { quotesMigration } from "./0011_commerce_quotes.ts";
import { billingMigration } from "./0012_commerce_billing.ts";
import { accountRoutes } from "./account-routes.ts";
import { accountTable, balanceTable, buyerTable } from "./accounts.ts";
import { b2bAudits } from "./b2b-audit.ts";
import { b2bCodes } from "./b2b-codes.ts";
import { b2bTools } from "./b2b-tools.ts";
import { billingSecretSetting, defaultProviderSetting, tellProviders } from "./billing.ts";
import { billingEventTable, billingSettingsTable, billingTaskTable } from "./billing-table.ts";
import { pricingRoutes } from "./pricing-routes.ts";
import { quoteRoutes } from "./quote-routes.ts";
import { invoiceTable, quoteTable } from "./quotes.ts";

/** Accounts of businesses with their buyers, prices, quotes and invoices. */
export const b2bPart: CommercePart = {
  settings: [defaultProviderSetting, billingSecretSetting],
  tables: [
    ...[accountTable, balanceTable, buyerTable, contractTable, ruleTable, competitorTable, quoteTable, invoiceTable],
    ...[billingSettingsTable, billingTaskTable, billingEventTable],
  ],
  migrations: [accountsMigration, quotesMigration, billingMigration],
  routes: [...accountRoutes, ...pricingRoutes, ...quoteRoutes],
  tools: b2bTools,
  scopes: {
    "b2b:read": "Read accounts, buyers, prices, quotes and invoices.",
    "b2b:write": "Change accounts, buyers and prices, make and convert quotes, and pay invoices.",
  },
  errorCodes: b2bCodes,
  auditTypes: b2bAudits,
  tasks: [{ name: "commerce_billing", run: tellProviders }],
  metrics: {
    svc_commerce_billing_degraded_total: {
      type: "counter",
      help: "Invoices that a billing provider refused, so that svc records them alone.",
      labels: ["provider"],
    },
    svc_commerce_billing_mismatch_total: {
      type: "counter",
      help: "Events of a billing provider that name another amount than the invoice.",
      labels: [],
    },
  },
};
