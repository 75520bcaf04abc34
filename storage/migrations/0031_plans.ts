import type { Migration } from "../store/migration.ts";

/** Plans of agents, and plans that operators have stored; see storage/tables/plans.ts. */
export const migration: Migration = {
  revision: "0031",
  name: "plans",
  up: [
    `CREATE TABLE plans (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      manifest_id TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      expires_at BIGINT,
      plan TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX plans_by_time ON plans (tenant_id, ts, id)",
    "CREATE INDEX plans_by_thread ON plans (tenant_id, thread_id, ts, id)",
    "CREATE INDEX plans_expiry ON plans (expires_at) WHERE expires_at IS NOT NULL",
  ],
  down: ["DROP TABLE plans"],
};
