import type { Migration } from "../store/migration.ts";

/** Durable runs of a restored backup are held until an operator releases them; see storage/tables/held-runs.ts. */
export const migration: Migration = {
  revision: "0067",
  name: "held_runs",
  up: [
    "ALTER TABLE fibers ADD COLUMN held INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX fibers_held ON fibers (tenant_id, run_id) WHERE held = 1",
  ],
  down: ["DROP INDEX fibers_held", "ALTER TABLE fibers DROP COLUMN held"],
};
