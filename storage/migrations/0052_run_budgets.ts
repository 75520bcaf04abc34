import type { Migration } from "../store/migration.ts";

/** The budget that a run shares with its background tasks; see storage/tables/run-budgets.ts. */
export const migration: Migration = {
  revision: "0052",
  name: "run_budgets",
  up: [
    `CREATE TABLE run_budgets (
      tenant_id TEXT NOT NULL,
      run_id TEXT NOT NULL,
      root_key BIGINT NOT NULL,
      max_tool_calls BIGINT NOT NULL,
      max_hops BIGINT NOT NULL,
      max_input_tokens BIGINT NOT NULL,
      max_output_tokens BIGINT NOT NULL,
      max_cost_usd {{float}} NOT NULL,
      tool_calls BIGINT NOT NULL,
      hops BIGINT NOT NULL,
      input_tokens BIGINT NOT NULL,
      output_tokens BIGINT NOT NULL,
      cost_usd {{float}} NOT NULL,
      PRIMARY KEY (tenant_id, run_id)
    )`,
    "CREATE INDEX run_budgets_root ON run_budgets (tenant_id, root_key)",
    `CREATE TABLE budget_shares (
      tenant_id TEXT NOT NULL,
      budget_id TEXT NOT NULL,
      run_id TEXT NOT NULL,
      root_key BIGINT NOT NULL,
      task_id TEXT,
      input_tokens BIGINT NOT NULL,
      output_tokens BIGINT NOT NULL,
      cost_usd {{float}} NOT NULL,
      PRIMARY KEY (tenant_id, budget_id, run_id)
    )`,
    "CREATE INDEX budget_shares_run ON budget_shares (tenant_id, run_id)",
    "CREATE INDEX budget_shares_root ON budget_shares (tenant_id, root_key)",
  ],
  down: ["DROP TABLE budget_shares", "DROP TABLE run_budgets"],
};
