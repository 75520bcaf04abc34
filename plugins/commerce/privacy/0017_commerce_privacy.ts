import type { Migration } from "../../../storage/store/migration.ts";

/** Finds the rows of one shopper, which are erased together. */
export const migration: Migration = {
  revision: "0017",
  name: "commerce_privacy",
  up: [
    "CREATE INDEX commerce_orders_email ON commerce_orders (tenant_id, email) WHERE email IS NOT NULL",
    "CREATE INDEX commerce_orders_buyer ON commerce_orders (tenant_id, buyer_subject) WHERE buyer_subject IS NOT NULL",
    `CREATE INDEX commerce_attribution_buyer ON commerce_attribution (tenant_id, buyer_subject)
      WHERE buyer_subject IS NOT NULL`,
    "CREATE INDEX commerce_sessions_buyer ON commerce_sessions (tenant_id, buyer_subject) WHERE buyer_subject IS NOT NULL",
    "CREATE INDEX commerce_buyers_email ON commerce_buyers (tenant_id, LOWER(email))",
  ],
  down: [
    "DROP INDEX commerce_buyers_email",
    "DROP INDEX commerce_sessions_buyer",
    "DROP INDEX commerce_attribution_buyer",
    "DROP INDEX commerce_orders_buyer",
    "DROP INDEX commerce_orders_email",
  ],
};
