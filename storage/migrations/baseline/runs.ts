import type { Step } from "../../store/migration.ts";

/** Runs, the parts that only durable runs have, their model calls and budgets, and plans. */
export const runTables: readonly Step[] = [
  // run_key is the thread's key and the run's number in one integer, so that the runs of a thread are adjacent without an index.
  // It is negative for a run without a thread. Columns that are only read back whole are JSON; see storage/tables/runs.ts.
  `CREATE TABLE runs (
    tenant_id TEXT NOT NULL,
    run_key {{key}},
    run_id TEXT NOT NULL,
    thread_key BIGINT,
    status TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    manifest TEXT NOT NULL,
    manifest_digest TEXT NOT NULL,
    parent_run_id TEXT,
    hops BIGINT NOT NULL,
    asked TEXT NOT NULL,
    idempotency_scope TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    first_seq BIGINT,
    last_seq BIGINT,
    spent TEXT,
    result TEXT,
    format BIGINT NOT NULL,
    manifest_version BIGINT
  )`,
  // A thread has at most one run that has not ended. Recovery reads only those.
  "CREATE UNIQUE INDEX runs_live ON runs (thread_key) WHERE ended_at IS NULL",
  "CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL",
  "CREATE INDEX runs_dead ON runs (tenant_id, started_at, run_id) WHERE status = 'dead'",
  `CREATE INDEX runs_claims ON runs (tenant_id, idempotency_scope)
    WHERE ended_at IS NULL AND idempotency_scope IS NOT NULL`,
  // Keys of runs without a thread. SQLite has a single writer and computes them from the table.
  { postgres: "CREATE SEQUENCE threadless_runs" },
  // The parts of a durable run; see storage/tables/durable-rows.ts.
  `CREATE TABLE fibers (
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    run_key BIGINT NOT NULL,
    suffix TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    begun_at BIGINT,
    ttl_ms BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    wake_at BIGINT,
    attempts BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    final TEXT,
    error TEXT,
    manifest_body TEXT,
    requeued_as TEXT,
    held INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id)
  )`,
  "CREATE UNIQUE INDEX fibers_run ON fibers (run_key)",
  "CREATE INDEX fibers_due ON fibers (wake_at, run_id) WHERE wake_at IS NOT NULL",
  "CREATE INDEX fibers_expiring ON fibers (expires_at) WHERE ended_at IS NULL AND wake_at IS NULL",
  // Counts the tenant's runs that have not begun a step.
  "CREATE INDEX fibers_queued ON fibers (tenant_id) WHERE begun_at IS NULL AND ended_at IS NULL",
  "CREATE INDEX fibers_ended ON fibers (ended_at) WHERE ended_at IS NOT NULL",
  "CREATE INDEX fibers_newest ON fibers (tenant_id, accepted_at, run_id)",
  "CREATE INDEX fibers_of_body ON fibers (tenant_id, manifest_body) WHERE manifest_body IS NOT NULL",
  // Runs of a restored backup, until an operator releases them; see storage/tables/held-runs.ts.
  "CREATE INDEX fibers_held ON fibers (tenant_id, run_id) WHERE held = 1",
  // The manifests by which accepted durable runs resume; see storage/tables/manifest-bodies.ts.
  `CREATE TABLE manifest_bodies (
    tenant_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    kept_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant_id, digest)
  )`,
  // The share of a manifest's runs that usually fails; see storage/tables/run-rates.ts.
  `CREATE TABLE run_rates (
    tenant_id TEXT NOT NULL,
    manifest TEXT NOT NULL,
    runs {{float}} NOT NULL,
    failures {{float}} NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, manifest)
  ) {{clustered}}`,
  "CREATE INDEX run_rates_seen ON run_rates (seen_at)",
  // The request of each model call; see storage/tables/model-calls.ts and storage/tables/model-frames.ts.
  `CREATE TABLE model_calls (
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    thread_key BIGINT,
    frame TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    facts TEXT NOT NULL,
    bodies TEXT,
    format BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id, n)
  )`,
  "CREATE INDEX model_calls_of_frame ON model_calls (tenant_id, frame)",
  `CREATE TABLE model_frames (
    tenant_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    touched_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, digest)
  )`,
  "CREATE INDEX model_frames_touched ON model_frames (touched_at)",
  // The budget that a run shares with its background tasks; see storage/tables/run-budgets.ts.
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
    settled BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, budget_id, run_id)
  )`,
  "CREATE INDEX budget_shares_run ON budget_shares (tenant_id, run_id)",
  "CREATE INDEX budget_shares_root ON budget_shares (tenant_id, root_key)",
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
];

export const dropRunTables: readonly Step[] = [
  "DROP TABLE plans",
  "DROP TABLE budget_shares",
  "DROP TABLE run_budgets",
  "DROP TABLE model_frames",
  "DROP TABLE model_calls",
  "DROP TABLE run_rates",
  "DROP TABLE manifest_bodies",
  "DROP TABLE fibers",
  { postgres: "DROP SEQUENCE threadless_runs" },
  "DROP TABLE runs",
];
