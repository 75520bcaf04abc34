import type { Migration } from "../store/migration.ts";

/** Lists the A2A tasks of a caller. Other runs get no entry in the index. */
export const migration: Migration = {
  revision: "0114",
  name: "a2a_task_list",
  up: [
    "ALTER TABLE runs ADD COLUMN a2a_owner TEXT",
    `CREATE INDEX runs_a2a_owned ON runs (tenant_id, a2a_owner, COALESCE(ended_at, started_at), run_id)
      WHERE a2a_owner IS NOT NULL`,
  ],
  down: ["DROP INDEX runs_a2a_owned", "ALTER TABLE runs DROP COLUMN a2a_owner"],
};
