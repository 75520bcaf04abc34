import type { Migration } from "../store/migration.ts";

/**
 * A run is a row that stays when it ends, hosts hold leases, and a thread counts who has taken it. `live_runs` stays: what the
 * release before this one has left there is still to be closed.
 */
export const migration: Migration = {
  revision: "0020",
  name: "runs",
  up: [
    // run_key is the thread's key and the run's number in it, in one integer, so that the runs of a thread lie together and need
    // no index; without a thread it is negative. What is only read back whole is JSON. See storage/tables/runs.ts.
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
    // Few rows at any time: one thread has one run that is not over, and recovery walks those that run.
    "CREATE UNIQUE INDEX runs_live ON runs (thread_key) WHERE ended_at IS NULL",
    "CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL",
    // SQLite counts by itself, as it has one writer.
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
    // What is not over is closed by the release that finds it: it cannot take up what waits.
    `INSERT INTO live_runs (tenant_id, thread_key, suffix, run_id, owner, started_at, idempotency_scope)
     SELECT r.tenant_id, r.thread_key, t.suffix, r.run_id, r.owner, r.started_at, r.idempotency_scope
     FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE r.ended_at IS NULL`,
    "DROP TABLE runs",
  ],
};
