import type { Migration } from "../store/migration.ts";

/** Connections to a code host, and the repositories that threads work in. */
export const migration: Migration = {
  revision: "0160",
  name: "repositories",
  up: [
    `CREATE TABLE github_connections (
      tenant_id TEXT NOT NULL,
      github_user_id BIGINT NOT NULL,
      github_login TEXT NOT NULL,
      status TEXT NOT NULL,
      tokens TEXT NOT NULL,
      version BIGINT NOT NULL,
      claimed_until BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      refresh_expires_at BIGINT,
      PRIMARY KEY (tenant_id, github_user_id)
    ) {{clustered}}`,
    `CREATE TABLE repo_checkouts (
      tenant_id TEXT NOT NULL,
      thread TEXT NOT NULL,
      checkout_id TEXT NOT NULL,
      root TEXT NOT NULL,
      state TEXT NOT NULL,
      owner TEXT NOT NULL,
      repo TEXT NOT NULL,
      base TEXT NOT NULL,
      private BIGINT NOT NULL,
      opened_by TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      used_at BIGINT NOT NULL,
      error TEXT,
      branch TEXT,
      published TEXT,
      PRIMARY KEY (tenant_id, thread)
    ) {{clustered}}`,
    "CREATE INDEX repo_checkouts_of_root ON repo_checkouts (tenant_id, root)",
    "CREATE UNIQUE INDEX repo_checkouts_ids ON repo_checkouts (checkout_id)",
    "CREATE INDEX repo_checkouts_used ON repo_checkouts (state, used_at)",
  ],
  down: ["DROP TABLE repo_checkouts", "DROP TABLE github_connections"],
};
