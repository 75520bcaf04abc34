import type { Migration } from "../../../storage/store/migration.ts";

/** The shoppers of threads, and their consents. */
export const migration: Migration = {
  revision: "0009",
  name: "commerce_shoppers",
  up: [
    `CREATE TABLE commerce_sessions (
      tenant_id TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      channel TEXT NOT NULL,
      utm TEXT NOT NULL,
      buyer_subject TEXT,
      cart_version BIGINT NOT NULL,
      cart_at BIGINT NOT NULL,
      cart_items BIGINT NOT NULL,
      cart_total_cents BIGINT NOT NULL,
      currency TEXT NOT NULL,
      PRIMARY KEY (tenant_id, thread_id)
    )`,
    "CREATE INDEX commerce_sessions_idle ON commerce_sessions (cart_at, tenant_id, thread_id) WHERE cart_items > 0",
    "CREATE INDEX commerce_sessions_empty ON commerce_sessions (ts) WHERE cart_items = 0",
    `CREATE TABLE commerce_consents (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      thread_id TEXT NOT NULL,
      subject TEXT NOT NULL,
      channel TEXT NOT NULL,
      scopes TEXT NOT NULL,
      granted BIGINT NOT NULL,
      terms_version TEXT NOT NULL,
      policy_url TEXT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_consents_recent ON commerce_consents (tenant_id, ts, id)",
    "CREATE INDEX commerce_consents_thread ON commerce_consents (tenant_id, thread_id, ts, id)",
  ],
  down: ["DROP TABLE commerce_consents", "DROP TABLE commerce_sessions"],
};
