import type { Migration } from "../../../storage/store/migration.ts";

/** The products of tenants with the index of their words, and the version of each catalog. */
export const migration: Migration = {
  revision: "0007",
  name: "commerce_products",
  up: [
    "INSERT INTO counters (name, value) VALUES ('commerce_product_key', 1)",
    `CREATE TABLE commerce_products (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      product_key BIGINT NOT NULL,
      ts BIGINT NOT NULL,
      title TEXT NOT NULL,
      description TEXT NOT NULL,
      price_cents BIGINT NOT NULL,
      currency TEXT NOT NULL,
      image_url TEXT,
      category TEXT NOT NULL,
      inventory BIGINT NOT NULL,
      active BIGINT NOT NULL,
      attrs TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE UNIQUE INDEX commerce_products_key ON commerce_products (product_key)",
    "CREATE INDEX commerce_products_active ON commerce_products (tenant_id, active, id)",
    "CREATE INDEX commerce_products_category ON commerce_products (tenant_id, category, id)",
    {
      sqlite: `CREATE VIRTUAL TABLE commerce_product_search USING fts5 (
        content, content='', contentless_delete=1, tokenize='porter unicode61'
      )`,
      postgres: `CREATE TABLE commerce_product_search (
        tenant_id TEXT NOT NULL,
        product_key BIGINT PRIMARY KEY,
        document tsvector NOT NULL
      )`,
    },
    {
      postgres: "CREATE INDEX commerce_product_search_document ON commerce_product_search USING gin (document)",
    },
    "CREATE TABLE commerce_catalogs (tenant_id TEXT NOT NULL PRIMARY KEY, version BIGINT NOT NULL, changed_at BIGINT NOT NULL)",
  ],
  down: [
    "DROP TABLE commerce_catalogs",
    "DROP TABLE commerce_product_search",
    "DROP TABLE commerce_products",
    "DELETE FROM counters WHERE name = 'commerce_product_key'",
  ],
};
