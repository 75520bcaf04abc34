import type { Migration } from "../../../storage/store/migration.ts";

/** Brands, and the hosts on which their storefronts answer. Both resolve publicly, so tenants of brands and hosts are unique. */
export const migration: Migration = {
  revision: "0006",
  name: "commerce_brands",
  up: [
    `CREATE TABLE commerce_brands (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      brand_tenant TEXT NOT NULL,
      name TEXT NOT NULL,
      identity TEXT NOT NULL,
      status TEXT NOT NULL,
      manifest TEXT NOT NULL,
      manifest_version BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE UNIQUE INDEX commerce_brands_tenant ON commerce_brands (brand_tenant)",
    "CREATE INDEX commerce_brands_recent ON commerce_brands (tenant_id, ts, id)",
    `CREATE TABLE commerce_brand_domains (
      tenant_id TEXT NOT NULL,
      host TEXT NOT NULL,
      brand_id TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (host)
    )`,
    "CREATE INDEX commerce_brand_domains_brand ON commerce_brand_domains (tenant_id, brand_id, host)",
  ],
  down: ["DROP TABLE commerce_brand_domains", "DROP TABLE commerce_brands"],
};
