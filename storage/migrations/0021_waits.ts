import type { Migration } from "../store/migration.ts";

/** A row for each open question of a run; see storage/tables/waits.ts. */
export const migration: Migration = {
  revision: "0021",
  name: "waits",
  up: [
    // Not clustered by its key: SQLite would then scan a tenant's waits instead of using the indexes below.
    `CREATE TABLE waits (
      tenant_id TEXT NOT NULL,
      wait_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      suffix TEXT NOT NULL,
      run_id TEXT NOT NULL,
      kind TEXT NOT NULL,
      subject TEXT NOT NULL,
      may_answer TEXT NOT NULL,
      call TEXT NOT NULL,
      opened_at BIGINT NOT NULL,
      deadline BIGINT,
      state TEXT NOT NULL,
      answer TEXT,
      PRIMARY KEY (tenant_id, wait_id)
    )`,
    "CREATE INDEX waits_of_run ON waits (tenant_id, run_id)",
    "CREATE INDEX waits_of_thread ON waits (tenant_id, thread_key)",
    // Finds answered waits that no run has processed yet, without a scan of the open ones.
    "CREATE INDEX waits_due ON waits (deadline) WHERE state = 'open' AND deadline IS NOT NULL",
    "CREATE INDEX waits_to_take ON waits (wait_id) WHERE state IN ('answered', 'expired')",
  ],
  down: ["DROP TABLE waits"],
};
