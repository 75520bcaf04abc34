import type { Migration } from "../store/migration.ts";

/** API keys that are made while the server runs, and the last sign-in of each person and workflow. */
export const migration: Migration = {
  revision: "0151",
  name: "runtime_access",
  up: [
    `CREATE TABLE runtime_keys (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      sha256 TEXT NOT NULL,
      prefix TEXT NOT NULL,
      name TEXT NOT NULL,
      sub TEXT NOT NULL,
      scopes TEXT NOT NULL,
      owner TEXT NOT NULL,
      ancestors TEXT NOT NULL,
      budget TEXT,
      created_at BIGINT NOT NULL,
      changed_at BIGINT NOT NULL,
      expires_at BIGINT NOT NULL,
      revoked_at BIGINT,
      PRIMARY KEY (tenant_id, id)
    ) {{clustered}}`,
    "CREATE UNIQUE INDEX runtime_keys_by_digest ON runtime_keys (sha256)",
    "CREATE INDEX runtime_keys_changed ON runtime_keys (changed_at)",
    "CREATE INDEX runtime_keys_expired ON runtime_keys (expires_at)",
    `CREATE TABLE sign_in_grants (
      tenant_id TEXT NOT NULL,
      sub TEXT NOT NULL,
      entries TEXT NOT NULL,
      scopes TEXT NOT NULL,
      at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, sub)
    ) {{clustered}}`,
    "CREATE INDEX sign_in_grants_by_time ON sign_in_grants (at)",
  ],
  down: ["DROP TABLE sign_in_grants", "DROP TABLE runtime_keys"],
};
