import type { Step } from "../../store/migration.ts";

/** Threads, their event logs, and the tables keyed by an event or a thread. */
export const threadTables: readonly Step[] = [
  // Events refer to a thread by an integer key: an insert takes 2.5 microseconds per event, and 6.9 with a text key.
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
    meta TEXT,
    epoch BIGINT NOT NULL DEFAULT 0,
    queued BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0
  )`,
  "CREATE UNIQUE INDEX threads_suffix ON threads (tenant_id, suffix)",
  "CREATE INDEX threads_recent ON threads (tenant_id, updated_at, suffix)",
  "CREATE INDEX threads_unindexed ON threads (tenant_id, thread_key) WHERE indexed_seq < next_seq",
  // Threads of tasks have the time 0, so that no list shows them.
  "CREATE INDEX threads_tasks ON threads (tenant_id, parent_session_id, suffix) WHERE updated_at = 0",
  // Threads without a message, by their age. Tasks and logs of runs without a thread have the time 0 too.
  `CREATE INDEX threads_unsaid ON threads (tenant_id, created_at, suffix)
    WHERE updated_at = 0 AND parent_session_id IS NULL AND suffix NOT LIKE 'fiber:%'`,
  // event_key is the thread's key and the sequence number in one integer; see storage/tables/events.ts.
  `CREATE TABLE events (
    tenant_id TEXT NOT NULL,
    event_key {{key}},
    parent_seq BIGINT NOT NULL,
    ts BIGINT NOT NULL,
    kind TEXT NOT NULL,
    role TEXT,
    content TEXT NOT NULL,
    extra TEXT,
    run BIGINT
  )`,
  // The same keys as events have, so that the rows of a thread are adjacent; see storage/tables/event-marks.ts.
  "CREATE TABLE labels (tenant_id TEXT NOT NULL, event_key {{key}}, label TEXT NOT NULL)",
  `CREATE TABLE feedback (
    tenant_id TEXT NOT NULL,
    event_key {{key}},
    rating TEXT NOT NULL,
    note TEXT NOT NULL,
    at BIGINT NOT NULL
  )`,
  // Logs to erase in small batches: a deleted thread's, or an unfinished fork's; see storage/tables/unowned-logs.ts.
  `CREATE TABLE unowned_logs (
    tenant_id TEXT NOT NULL,
    thread_key {{key}},
    events BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    touched_at BIGINT NOT NULL
  )`,
  // Messages that wait for the thread's run. `threads.queued` counts them, so that most threads load without a read of this table.
  `CREATE TABLE queued_inputs (
    tenant_id TEXT NOT NULL,
    thread_key BIGINT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    content TEXT NOT NULL,
    sender TEXT NOT NULL,
    detail TEXT,
    PRIMARY KEY (tenant_id, thread_key, number)
  )`,
  // Clients that drive or watch a thread.
  `CREATE TABLE thread_leases (
    tenant_id TEXT NOT NULL,
    thread_key BIGINT NOT NULL,
    token_hash TEXT NOT NULL,
    mode TEXT NOT NULL,
    holder_id TEXT NOT NULL,
    token_hint TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, thread_key, token_hash)
  )`,
  // A thread has at most one driver.
  "CREATE UNIQUE INDEX thread_leases_driver ON thread_leases (tenant_id, thread_key) WHERE mode = 'exclusive'",
  "CREATE INDEX thread_leases_by_end ON thread_leases (expires_at)",
];

export const dropThreadTables: readonly Step[] = [
  "DROP TABLE thread_leases",
  "DROP TABLE queued_inputs",
  "DROP TABLE unowned_logs",
  "DROP TABLE feedback",
  "DROP TABLE labels",
  "DROP TABLE events",
  "DROP TABLE threads",
];
