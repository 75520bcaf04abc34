import type { Migration } from "../store/migration.ts";

/** Conversations in which nothing was ever said are found by their age. */
export const migration: Migration = {
  revision: "0058",
  name: "unsaid_threads",
  up: [
    // Tasks and the logs of runs without a conversation have the time 0 too, and go with what they belong to.
    `CREATE INDEX threads_unsaid ON threads (tenant_id, created_at, suffix)
       WHERE updated_at = 0 AND parent_session_id IS NULL AND suffix NOT LIKE 'fiber:%'`,
  ],
  down: ["DROP INDEX threads_unsaid"],
};
