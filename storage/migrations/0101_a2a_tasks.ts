import type { Migration } from "../store/migration.ts";

/** Finds a run by its id if it is a task of the A2A protocol. Other runs get no entry in the index. */
export const migration: Migration = {
  revision: "0101",
  name: "a2a_tasks",
  up: [
    "ALTER TABLE runs ADD COLUMN a2a_context TEXT",
    "CREATE INDEX runs_a2a ON runs (tenant_id, run_id) WHERE a2a_context IS NOT NULL",
  ],
  down: ["DROP INDEX runs_a2a", "ALTER TABLE runs DROP COLUMN a2a_context"],
};
