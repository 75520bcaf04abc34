import type { Migration } from "../../../storage/store/migration.ts";

/** Where tenants keep their entities, the copies of synced ones, and the jobs that pull them. */
export const entitiesMigration: Migration = {
  revision: "0013",
  name: "commerce_entities",
  up: [
    `CREATE TABLE commerce_entity_sources (
      tenant_id TEXT NOT NULL,
      type TEXT NOT NULL,
      mode TEXT NOT NULL,
      connector TEXT,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, type)
    )`,
    `CREATE TABLE commerce_entities (
      tenant_id TEXT NOT NULL,
      type TEXT NOT NULL,
      id TEXT NOT NULL,
      body TEXT NOT NULL,
      deleted BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, type, id)
    )`,
    `CREATE TABLE commerce_entity_jobs (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      type TEXT NOT NULL,
      ts BIGINT NOT NULL,
      status TEXT NOT NULL,
      cursor TEXT,
      pages BIGINT NOT NULL,
      applied BIGINT NOT NULL,
      skipped BIGINT NOT NULL,
      failed BIGINT NOT NULL,
      problem TEXT NOT NULL,
      claim BIGINT NOT NULL,
      due_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_entity_jobs_due ON commerce_entity_jobs (due_at) WHERE status = 'running'",
    "CREATE UNIQUE INDEX commerce_entity_jobs_live ON commerce_entity_jobs (tenant_id, type) WHERE status = 'running'",
    "CREATE INDEX commerce_entity_jobs_old ON commerce_entity_jobs (ts)",
  ],
  down: ["DROP TABLE commerce_entity_jobs", "DROP TABLE commerce_entities", "DROP TABLE commerce_entity_sources"],
};
