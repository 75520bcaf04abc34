import type { Migration } from "../store/migration.ts";

/** The run that continues a dead one, and an index of a tenant's dead runs by age; see storage/tables/fibers.ts. */
export const migration: Migration = {
  revision: "0050",
  name: "requeued",
  up: [
    "ALTER TABLE fibers ADD COLUMN requeued_as TEXT",
    "CREATE INDEX runs_dead ON runs (tenant_id, started_at, run_id) WHERE status = 'dead'",
  ],
  down: ["DROP INDEX runs_dead", "ALTER TABLE fibers DROP COLUMN requeued_as"],
};
