import type { Step } from "../../store/migration.ts";

/** Manifests, files, values under keys, jobs and deliveries of tenants. */
export const tenantDataTables: readonly Step[] = [
  `CREATE TABLE manifest_versions (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    manifest TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    comment TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name, version)
  )`,
  // The version that answers, and the canary.
  `CREATE TABLE manifest_pointers (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    canary_version BIGINT,
    canary_weight BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (tenant_id, name)
  )`,
  // The object store has the bytes. A file has a row before its bytes are stored and until they are deleted, so that no bytes are
  // without a row.
  `CREATE TABLE files (
    tenant_id TEXT NOT NULL,
    file_id TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    filename TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'kept',
    thread_key BIGINT,
    PRIMARY KEY (tenant_id, file_id)
  )`,
  "CREATE INDEX files_of_thread ON files (tenant_id, thread_key) WHERE thread_key IS NOT NULL",
  "CREATE INDEX files_unkept ON files (created_at) WHERE state <> 'kept'",
  "CREATE INDEX files_uploaded ON files (tenant_id, created_at, file_id) WHERE state = 'kept' AND thread_key IS NULL",
  // Forks that show a file of their source.
  `CREATE TABLE file_shares (
    tenant_id TEXT NOT NULL,
    thread_key BIGINT NOT NULL,
    file_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, thread_key, file_id)
  ) {{clustered}}`,
  "CREATE INDEX file_shares_of_file ON file_shares (tenant_id, file_id)",
  `CREATE TABLE kv (
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    version BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (tenant_id, key)
  ) {{clustered}}`,
  "CREATE INDEX kv_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL",
  `CREATE TABLE kv_lists (
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    place BIGINT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key, place)
  ) {{clustered}}`,
  `CREATE TABLE jobs (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    schedule TEXT NOT NULL,
    manifest_id TEXT NOT NULL,
    payload TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    owner TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_run_at BIGINT,
    next_run_at BIGINT,
    last_status TEXT NOT NULL,
    last_error TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
  )`,
  "CREATE INDEX jobs_due ON jobs (next_run_at) WHERE next_run_at IS NOT NULL",
  `CREATE TABLE job_runs (
    tenant_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    job_name TEXT NOT NULL,
    suffix TEXT NOT NULL,
    caused_by TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    asked TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    accepted_at BIGINT,
    finished_at BIGINT,
    outcome TEXT NOT NULL,
    error TEXT NOT NULL,
    answer TEXT,
    PRIMARY KEY (tenant_id, run_id)
  )`,
  "CREATE INDEX job_runs_by_time ON job_runs (tenant_id, job_name, started_at, run_id)",
  "CREATE INDEX job_runs_by_thread ON job_runs (tenant_id, suffix)",
  "CREATE UNIQUE INDEX job_runs_open ON job_runs (tenant_id, job_name) WHERE status = 'running'",
  // Webhooks to send, from the batch that made them due; see storage/tables/deliveries.ts.
  `CREATE TABLE deliveries (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    claim BIGINT NOT NULL,
    claimed_by TEXT,
    ended_at BIGINT,
    PRIMARY KEY (tenant_id, id)
  )`,
  // Pending deliveries are few. A sent one has an entry only in the last index.
  "CREATE INDEX deliveries_due ON deliveries (tenant_id, endpoint_id, due_at) WHERE state = 'pending'",
  "CREATE INDEX deliveries_oldest ON deliveries (created_at) WHERE state = 'pending'",
  "CREATE INDEX deliveries_claimed ON deliveries (claimed_by) WHERE claimed_by IS NOT NULL",
  "CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE ended_at IS NOT NULL",
];

export const dropTenantDataTables: readonly Step[] = [
  "DROP TABLE deliveries",
  "DROP TABLE job_runs",
  "DROP TABLE jobs",
  "DROP TABLE kv_lists",
  "DROP TABLE kv",
  "DROP TABLE file_shares",
  "DROP TABLE files",
  "DROP TABLE manifest_pointers",
  "DROP TABLE manifest_versions",
];
