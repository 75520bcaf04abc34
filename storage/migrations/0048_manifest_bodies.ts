import type { Migration } from "../store/migration.ts";

/** The manifests that durable runs were accepted with and resume with; see storage/tables/manifest-bodies.ts. */
export const migration: Migration = {
  revision: "0048",
  name: "manifest_bodies",
  up: [
    `CREATE TABLE manifest_bodies (
      tenant_id TEXT NOT NULL,
      digest TEXT NOT NULL,
      kept_at BIGINT NOT NULL,
      body TEXT NOT NULL,
      PRIMARY KEY (tenant_id, digest)
    )`,
    "ALTER TABLE fibers ADD COLUMN manifest_body TEXT",
    "CREATE INDEX fibers_of_body ON fibers (tenant_id, manifest_body) WHERE manifest_body IS NOT NULL",
  ],
  down: ["DROP INDEX fibers_of_body", "ALTER TABLE fibers DROP COLUMN manifest_body", "DROP TABLE manifest_bodies"],
};
