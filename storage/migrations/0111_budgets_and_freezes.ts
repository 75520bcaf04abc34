import type { Migration } from "../store/migration.ts";

/** The spending of budgets by period, and the freezes of tenants. */
export const migration: Migration = {
  revision: "0111",
  name: "budgets_and_freezes",
  up: [
    `CREATE TABLE budget_spending (
      tenant_id TEXT NOT NULL,
      budget_id TEXT NOT NULL,
      period_start BIGINT NOT NULL,
      subject TEXT NOT NULL,
      tokens BIGINT NOT NULL,
      usd {{float}} NOT NULL,
      settled_tokens BIGINT NOT NULL,
      settled_usd {{float}} NOT NULL,
      warned BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, budget_id, period_start, subject)
    ) {{clustered}}`,
    `CREATE TABLE freezes (
      tenant_id TEXT NOT NULL,
      selector TEXT NOT NULL,
      reason TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      created_by TEXT NOT NULL,
      PRIMARY KEY (tenant_id, selector)
    ) {{clustered}}`,
  ],
  down: ["DROP TABLE freezes", "DROP TABLE budget_spending"],
};
