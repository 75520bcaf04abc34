import type { Migration } from "../store/migration.ts";

/** A row for each client that drives or watches a thread; see storage/tables/thread-leases.ts. */
export const migration: Migration = {
  revision: "0030",
  name: "thread_leases",
  up: [
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
    // At most one driver per thread; the first one wins.
    "CREATE UNIQUE INDEX thread_leases_driver ON thread_leases (tenant_id, thread_key) WHERE mode = 'exclusive'",
    "CREATE INDEX thread_leases_by_end ON thread_leases (expires_at)",
  ],
  down: ["DROP TABLE thread_leases"],
};
