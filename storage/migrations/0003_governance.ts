import type { Migration } from "../store/migration.ts";

/** Audit rows, usage rows, approvals, and idempotency keys. */
export const migration: Migration = {
  revision: "0003",
  name: "governance",
  up: [
    // Every turn inserts audit and usage rows. Each table is one tree in reading order, without a second index.
    `CREATE TABLE audit (
      tenant_id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      id TEXT NOT NULL,
      event_type TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      principal_subj TEXT NOT NULL,
      status TEXT NOT NULL,
      payload TEXT NOT NULL,
      tool TEXT,
      latency_ms {{float}},
      PRIMARY KEY (tenant_id, ts, id)
    ) {{clustered}}`,
    // The two excluded types come with every turn, so every page has enough of them without an index.
    `CREATE INDEX audit_by_type ON audit (tenant_id, event_type, ts, id)
      WHERE event_type <> 'user_input' AND event_type <> 'final_response'`,
    `CREATE TABLE usage (
      tenant_id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      model_id TEXT NOT NULL,
      wire_model_id TEXT NOT NULL,
      kind TEXT NOT NULL,
      tokens_input BIGINT NOT NULL,
      tokens_output BIGINT NOT NULL,
      cache_creation BIGINT NOT NULL,
      cache_read BIGINT NOT NULL,
      cost_usd {{float}} NOT NULL,
      thread_id TEXT NOT NULL,
      meta_json TEXT NOT NULL,
      PRIMARY KEY (tenant_id, ts, id)
    ) {{clustered}}`,
    `CREATE TABLE approvals (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      tool_name TEXT NOT NULL,
      call_signature TEXT NOT NULL,
      args TEXT NOT NULL,
      principal_subj TEXT NOT NULL,
      consumed_at BIGINT,
      status TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      decided_at BIGINT,
      decided_by TEXT NOT NULL,
      decision_note TEXT NOT NULL,
      edited_args TEXT,
      ttl_seconds BIGINT,
      expires_at BIGINT,
      rule_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      tool_call_id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX approvals_recent ON approvals (tenant_id, status, created_at, id)",
    `CREATE TABLE idempotency (
      tenant_id TEXT NOT NULL,
      scope TEXT NOT NULL,
      fingerprint TEXT NOT NULL,
      state TEXT NOT NULL,
      owner TEXT NOT NULL,
      run_id TEXT NOT NULL,
      answer TEXT,
      expires_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, scope)
    ) {{clustered}}`,
    "CREATE INDEX idempotency_expiry ON idempotency (expires_at)",
  ],
  down: ["DROP TABLE idempotency", "DROP TABLE approvals", "DROP TABLE usage", "DROP TABLE audit"],
};
