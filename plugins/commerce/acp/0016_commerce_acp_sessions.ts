import type { Migration } from "../../../storage/store/migration.ts";

/** Checkout sessions of the Agentic Commerce Protocol. */
export const migration: Migration = {
  revision: "0016",
  name: "commerce_acp_sessions",
  up: [
    `CREATE TABLE commerce_acp_sessions (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      expires_at BIGINT NOT NULL,
      status TEXT NOT NULL,
      revision BIGINT NOT NULL,
      claimed_until BIGINT NOT NULL,
      given TEXT NOT NULL,
      view TEXT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_acp_sessions_expiry ON commerce_acp_sessions (expires_at)",
    "CREATE INDEX commerce_acp_sessions_claimed ON commerce_acp_sessions (claimed_until) WHERE claimed_until > 0",
  ],
  down: ["DROP TABLE commerce_acp_sessions"],
};
