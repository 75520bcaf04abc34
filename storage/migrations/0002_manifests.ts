import type { Migration } from "../store/migration.ts";

/** Manifests of tenants: every version, and a pointer to the active one. */
export const migration: Migration = {
  revision: "0002",
  name: "manifests",
  up: [
    `CREATE TABLE manifest_versions (
      tenant_id TEXT NOT NULL,
      name TEXT NOT NULL,
      version BIGINT NOT NULL,
      manifest TEXT NOT NULL,
      digest TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      created_by TEXT NOT NULL,
      comment TEXT NOT NULL,
      PRIMARY KEY (tenant_id, name, version)
    )`,
    `CREATE TABLE manifest_pointers (
      tenant_id TEXT NOT NULL,
      name TEXT NOT NULL,
      version BIGINT NOT NULL,
      canary_version BIGINT,
      canary_weight BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      updated_by TEXT NOT NULL,
      PRIMARY KEY (tenant_id, name)
    )`,
  ],
  down: ["DROP TABLE manifest_pointers", "DROP TABLE manifest_versions"],
};
