import type { Migration } from "../store/migration.ts";

/** The versions of manifests that threads are pinned to. */
export const migration: Migration = {
  revision: "0109",
  name: "manifest_pins",
  up: [
    `CREATE TABLE manifest_pins (
      tenant_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      suffix TEXT NOT NULL,
      manifest TEXT NOT NULL,
      version BIGINT,
      digest TEXT NOT NULL,
      pinned_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, thread_key)
    ) {{clustered}}`,
    "CREATE INDEX manifest_pins_of ON manifest_pins (tenant_id, manifest, digest)",
  ],
  down: ["DROP TABLE manifest_pins"],
};
