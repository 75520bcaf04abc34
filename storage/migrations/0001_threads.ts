import type { Migration } from "../store/migration.ts";

/** Threads, their append-only logs, and a marker for each live run. */
export const migration: Migration = {
  revision: "0001",
  name: "threads",
  up: [
    // Events refer to the integer key: an insert takes 2.5 microseconds, against 6.9 for a text key.
    `CREATE TABLE threads (
      tenant_id TEXT NOT NULL,
      thread_key {{key}},
      suffix TEXT NOT NULL,
      uid TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      next_seq BIGINT NOT NULL,
      leaf_seq BIGINT NOT NULL,
      indexed_seq BIGINT NOT NULL,
      revision BIGINT NOT NULL,
      manifest TEXT,
      model_id TEXT,
      session_name TEXT,
      preview TEXT,
      parent_session_id TEXT,
      meta TEXT
    )`,
    "CREATE UNIQUE INDEX threads_suffix ON threads (tenant_id, suffix)",
    "CREATE INDEX threads_recent ON threads (tenant_id, updated_at, suffix)",
    "CREATE INDEX threads_unindexed ON threads (tenant_id, thread_key) WHERE indexed_seq < next_seq",
    // event_key packs the thread's key and the sequence number into one integer; see storage/tables/events.ts.
    `CREATE TABLE events (
      tenant_id TEXT NOT NULL,
      event_key {{key}},
      parent_seq BIGINT NOT NULL,
      ts BIGINT NOT NULL,
      kind TEXT NOT NULL,
      role TEXT,
      content TEXT NOT NULL,
      extra TEXT
    )`,
    `CREATE TABLE live_runs (
      tenant_id TEXT NOT NULL,
      thread_key {{key}},
      suffix TEXT NOT NULL,
      run_id TEXT NOT NULL,
      owner TEXT NOT NULL,
      started_at BIGINT NOT NULL,
      idempotency_scope TEXT
    )`,
    // The counter from which blocks of thread keys are allocated.
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO counters (name, value) VALUES ('thread_key', 1)",
    // Compares a statement's row count with its expected count while the batch can still roll back; see
    // storage/postgres/guard.ts.
    {
      postgres: `CREATE FUNCTION svc_expect(rows_found BIGINT, rows_expected BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
        BEGIN
          IF rows_found <> rows_expected THEN
            RAISE EXCEPTION 'found % rows, expected %', rows_found, rows_expected USING ERRCODE = 'SV001';
          END IF;
          RETURN TRUE;
        END
      $$`,
    },
  ],
  down: [
    { postgres: "DROP FUNCTION svc_expect(BIGINT, BIGINT)" },
    "DROP TABLE counters",
    "DROP TABLE live_runs",
    "DROP TABLE events",
    "DROP TABLE threads",
  ],
};
