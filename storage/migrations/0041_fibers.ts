import type { Migration } from "../store/migration.ts";

/** The columns that only durable runs need, besides their row in `runs`; see storage/tables/fibers.ts. */
export const migration: Migration = {
  revision: "0041",
  name: "fibers",
  up: [
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
      PRIMARY KEY (tenant_id, run_id)
    )`,
    "CREATE UNIQUE INDEX fibers_run ON fibers (run_key)",
    // Indexes for due runs, for runs whose lifetime may have ended, and for a tenant's count of runs before their first
    // step.
    "CREATE INDEX fibers_due ON fibers (wake_at, run_id) WHERE wake_at IS NOT NULL",
    "CREATE INDEX fibers_expiring ON fibers (expires_at) WHERE ended_at IS NULL AND wake_at IS NULL",
    "CREATE INDEX fibers_queued ON fibers (tenant_id) WHERE begun_at IS NULL AND ended_at IS NULL",
    "CREATE INDEX fibers_ended ON fibers (ended_at) WHERE ended_at IS NOT NULL",
    "CREATE INDEX fibers_newest ON fibers (tenant_id, accepted_at, run_id)",
  ],
  down: [
    // The previous release knows no run without a first step: it closes such runs as running ones.
    "UPDATE runs SET status = 'running' WHERE status = 'accepted'",
    "DROP TABLE fibers",
  ],
};
