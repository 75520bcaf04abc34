import type { Migration } from "../store/migration.ts";

/** A conversation's tasks have threads of their own, which are in no list and go with it: see bus/address.ts. */
export const migration: Migration = {
  revision: "0036",
  name: "tasks",
  up: ["CREATE INDEX threads_tasks ON threads (tenant_id, parent_session_id, suffix) WHERE updated_at = 0"],
  down: ["DROP INDEX threads_tasks"],
};
