import type { Migration } from "../store/migration.ts";

/** Index of threads without any message, by age. */
export const migration: Migration = {
  revision: "0058",
  name: "unsaid_threads",
  up: [
    // Threads of tasks, and logs of runs without a thread, have the time 0 too; they are deleted with their owner.
    `CREATE INDEX threads_unsaid ON threads (tenant_id, created_at, suffix)
       WHERE updated_at = 0 AND parent_session_id IS NULL AND suffix NOT LIKE 'fiber:%'`,
  ],
  down: ["DROP INDEX threads_unsaid"],
};
