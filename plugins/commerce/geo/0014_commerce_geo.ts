import type { Migration } from "../../../storage/store/migration.ts";

/** Questions to models about brands, and the judged answers. */
export const geoMigration: Migration = {
  revision: "0014",
  name: "commerce_geo",
  up: [
    `CREATE TABLE commerce_geo_queries (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      brand_id TEXT NOT NULL,
      query_text TEXT NOT NULL,
      models TEXT NOT NULL,
      active BIGINT NOT NULL,
      asked_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE UNIQUE INDEX commerce_geo_queries_text ON commerce_geo_queries (tenant_id, brand_id, query_text)",
    "CREATE INDEX commerce_geo_queries_recent ON commerce_geo_queries (tenant_id, ts, id)",
    "CREATE INDEX commerce_geo_queries_brand ON commerce_geo_queries (tenant_id, brand_id, ts, id)",
    "CREATE INDEX commerce_geo_queries_due ON commerce_geo_queries (asked_at) WHERE active = 1",
    `CREATE TABLE commerce_geo_observations (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      query_id TEXT NOT NULL,
      brand_id TEXT NOT NULL,
      engine TEXT NOT NULL,
      brand_mentioned BIGINT NOT NULL,
      rank BIGINT NOT NULL,
      competitors TEXT NOT NULL,
      products TEXT NOT NULL,
      answer_excerpt TEXT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_geo_observations_recent ON commerce_geo_observations (tenant_id, ts, id)",
    "CREATE INDEX commerce_geo_observations_brand ON commerce_geo_observations (tenant_id, brand_id, ts, id)",
    "CREATE INDEX commerce_geo_observations_query ON commerce_geo_observations (tenant_id, query_id, ts, id)",
  ],
  down: ["DROP TABLE commerce_geo_observations", "DROP TABLE commerce_geo_queries"],
};
