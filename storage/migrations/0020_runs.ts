import type { Migration } from "../store/migration.ts";

/**
 * Rows for runs that stay after the end of the run, leases of hosts, and an epoch that counts the owners of a thread.
 * `live_runs` stays, because rows of the previous release must still be closed.
 */
export const migration: Migration = {
  revision: "0020",
  name: "runs",
  up: [
    // run_key packs the thread's key and the run's number into one integer. The runs of a thread are therefore adjacent
    // and need no index. It is negative without a thread. Columns that are only read as a whole hold JSON. See
    // storage/tables/runs.ts.
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
      format BIGINT NOT NULL
    )`,
    // Both are small: a thread has at most one open run, and recovery scans only open runs.
    "CREATE UNIQUE INDEX runs_live ON runs (thread_key) WHERE ended_at IS NULL",
    "CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL",
    // SQLite derives the number in the statement, because it has one writer.
    { postgres: "CREATE SEQUENCE threadless_runs" },
    "CREATE TABLE hosts (id TEXT PRIMARY KEY, expires_at BIGINT NOT NULL) {{clustered}}",
    "ALTER TABLE threads ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE events ADD COLUMN run BIGINT",
    "INSERT INTO counters (name, value) VALUES ('manifest_changes', 0)",
  ],
  down: [
    "DELETE FROM counters WHERE name = 'manifest_changes'",
    "ALTER TABLE events DROP COLUMN run",
    "ALTER TABLE threads DROP COLUMN epoch",
    "DROP TABLE hosts",
    { postgres: "DROP SEQUENCE threadless_runs" },
    // The previous release closes the open runs that it finds, because it cannot resume waiting ones.
    `INSERT INTO live_runs (tenant_id, thread_key, suffix, run_id, owner, started_at, idempotency_scope)
     SELECT r.tenant_id, r.thread_key, t.suffix, r.run_id, r.owner, r.started_at, r.idempotency_scope
     FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE r.ended_at IS NULL`,
    "DROP TABLE runs",
  ],
};
