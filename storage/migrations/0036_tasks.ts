import type { Migration } from "../store/migration.ts";

/**
 * Tasks of a thread have threads of their own, which no list shows and which are deleted with it; see bus/address.ts.
 */
export const migration: Migration = {
  revision: "0036",
  name: "tasks",
  up: ["CREATE INDEX threads_tasks ON threads (tenant_id, parent_session_id, suffix) WHERE updated_at = 0"],
  down: ["DROP INDEX threads_tasks"],
};
