import type { Migration } from "../store/migration.ts";

/** What only durable runs have beside their row in `runs`: see storage/tables/fibers.ts. */
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
    // What is due, what may have come to the end of its time, and how many of a tenant wait for their first step.
    "CREATE INDEX fibers_due ON fibers (wake_at, run_id) WHERE wake_at IS NOT NULL",
    "CREATE INDEX fibers_expiring ON fibers (expires_at) WHERE ended_at IS NULL AND wake_at IS NULL",
    "CREATE INDEX fibers_queued ON fibers (tenant_id) WHERE begun_at IS NULL AND ended_at IS NULL",
    "CREATE INDEX fibers_ended ON fibers (ended_at) WHERE ended_at IS NOT NULL",
    "CREATE INDEX fibers_newest ON fibers (tenant_id, accepted_at, run_id)",
  ],
  down: [
    // The release before knows no run that has not begun: it closes what it finds.
    "UPDATE runs SET status = 'running' WHERE status = 'accepted'",
    "DROP TABLE fibers",
  ],
};
