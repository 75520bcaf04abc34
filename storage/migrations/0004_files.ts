import type { Migration } from "../store/migration.ts";

/** Uploaded files, whose bytes are in the object store, and small values under a key with a lifetime. */
export const migration: Migration = {
  revision: "0004",
  name: "files",
  up: [
    `CREATE TABLE files (
      tenant_id TEXT NOT NULL,
      file_id TEXT NOT NULL,
      media_type TEXT NOT NULL,
      size_bytes BIGINT NOT NULL,
      filename TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      created_by TEXT NOT NULL,
      PRIMARY KEY (tenant_id, file_id)
    )`,
    `CREATE TABLE kv (
      tenant_id TEXT NOT NULL,
      key TEXT NOT NULL,
      value TEXT NOT NULL,
      version BIGINT NOT NULL,
      expires_at BIGINT,
      PRIMARY KEY (tenant_id, key)
    ) {{clustered}}`,
    "CREATE INDEX kv_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL",
  ],
  down: ["DROP TABLE kv", "DROP TABLE files"],
};
