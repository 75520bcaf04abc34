import type { Migration } from "../../../storage/store/migration.ts";

/** Carts that were left without an order, one row for each version of a cart. */
export const abandonedMigration: Migration = {
  revision: "0015",
  name: "commerce_abandoned_carts",
  up: [
    `CREATE TABLE commerce_abandoned_carts (
      tenant_id TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      cart_version BIGINT NOT NULL,
      ts BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, thread_id, cart_version)
    )`,
    "CREATE INDEX commerce_abandoned_carts_old ON commerce_abandoned_carts (ts)",
  ],
  down: ["DROP TABLE commerce_abandoned_carts"],
};
