import type { Migration } from "../store/migration.ts";

/** Names the manifests whose data is deleted after a time of their own. */
export const migration: Migration = {
  revision: "0130",
  name: "manifest_retention",
  up: [
    `CREATE TABLE manifest_retention (
      tenant_id TEXT NOT NULL,
      manifest TEXT NOT NULL,
      since BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, manifest)
    )`,
  ],
  down: ["DROP TABLE manifest_retention"],
};
