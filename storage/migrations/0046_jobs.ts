import type { Migration } from "../store/migration.ts";

/** Jobs of a tenant and their results; see storage/tables/jobs.ts and storage/tables/job-runs.ts. */
export const migration: Migration = {
  revision: "0046",
  name: "jobs",
  up: [
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
  ],
  down: ["DROP TABLE job_runs", "DROP TABLE jobs"],
};
