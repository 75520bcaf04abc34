import type { Step } from "../../store/migration.ts";

const usageSums = ["calls", "tokens_input", "tokens_output", "cache_creation", "cache_read", "cost_usd"];
const addUsage = (slot: string): string => `INSERT INTO usage_days
    (tenant_id, day, manifest_id, model_id, slot, ${usageSums.join(", ")})
  VALUES (NEW.tenant_id, NEW.ts / 86400000, NEW.manifest_id, NEW.model_id, ${slot}, 1, NEW.tokens_input, NEW.tokens_output,
    NEW.cache_creation, NEW.cache_read, NEW.cost_usd)
  ON CONFLICT (tenant_id, day, manifest_id, model_id, slot)
    DO UPDATE SET ${usageSums.map((name) => `${name} = usage_days.${name} + excluded.${name}`).join(", ")};`;

/** Audit, usage, rates, idempotency keys and stored bytes. */
export const governanceTables: readonly Step[] = [
  // Every turn adds audit and usage rows, so each of these tables is a single tree, in the order of its lists.
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
  // Excludes the two types that each turn writes: every page of the list has such rows, so no index is needed to find them.
  `CREATE INDEX audit_by_type ON audit (tenant_id, event_type, ts, id)
    WHERE event_type <> 'user_input' AND event_type <> 'final_response'`,
  // Excludes `ok`, the status of nearly every row, because each index entry makes turns slower.
  "CREATE INDEX audit_by_status ON audit (tenant_id, status, ts, id) WHERE status <> 'ok'",
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
  "CREATE INDEX usage_by_manifest ON usage (tenant_id, manifest_id, ts, id)",
  "CREATE INDEX usage_by_thread ON usage (tenant_id, thread_id, ts, id)",
  // A trigger adds each usage row to these sums, so that a turn sends no more statements. On Postgres each connection has its
  // own rows (`slot`), so that turns that end together do not wait for each other. See storage/tables/usage.ts.
  `CREATE TABLE usage_days (
    tenant_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    manifest_id TEXT NOT NULL,
    model_id TEXT NOT NULL,
    slot BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    tokens_input BIGINT NOT NULL,
    tokens_output BIGINT NOT NULL,
    cache_creation BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cost_usd {{float}} NOT NULL,
    PRIMARY KEY (tenant_id, day, manifest_id, model_id, slot)
  ) {{clustered}}`,
  {
    sqlite: `CREATE TRIGGER usage_add AFTER INSERT ON usage BEGIN ${addUsage("0")} END`,
    postgres: `CREATE FUNCTION svc_usage_add() RETURNS TRIGGER LANGUAGE plpgsql AS $$
      BEGIN ${addUsage("pg_backend_pid() % 64")} RETURN NULL; END $$`,
  },
  { postgres: "CREATE TRIGGER usage_add AFTER INSERT ON usage FOR EACH ROW EXECUTE FUNCTION svc_usage_add()" },
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
  "CREATE INDEX idempotency_claimed ON idempotency (owner) WHERE state = 'in_progress'",
  // The used rate of a caller outlives the process that counted it; see storage/tables/rate-buckets.ts.
  `CREATE TABLE rate_buckets (
    bucket TEXT PRIMARY KEY NOT NULL,
    state TEXT NOT NULL,
    mark TEXT NOT NULL,
    full_at BIGINT NOT NULL
  ) {{clustered}}`,
  "CREATE INDEX rate_buckets_full ON rate_buckets (full_at)",
  // See storage/tables/stored-bytes.ts.
  `CREATE TABLE stored_bytes (
    tenant_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kind)
  ) {{clustered}}`,
];

export const dropGovernanceTables: readonly Step[] = [
  "DROP TABLE stored_bytes",
  "DROP TABLE rate_buckets",
  "DROP TABLE idempotency",
  { sqlite: "DROP TRIGGER usage_add", postgres: "DROP TRIGGER usage_add ON usage" },
  { postgres: "DROP FUNCTION svc_usage_add()" },
  "DROP TABLE usage_days",
  "DROP TABLE usage",
  "DROP TABLE audit",
];
