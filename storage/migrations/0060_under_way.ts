import type { Migration } from "../store/migration.ts";

/**
 * Partial indexes over few rows: open idempotency claims, open waits of tasks by the task's thread, and ends of tasks
 * that no run has read.
 */
export const migration: Migration = {
  revision: "0060",
  name: "under_way",
  up: [
    "CREATE INDEX idempotency_claimed ON idempotency (owner) WHERE state = 'in_progress'",
    "CREATE INDEX waits_of_tasks ON waits (tenant_id, thread_key) WHERE state = 'open' AND asked_on <> thread_key",
    "CREATE INDEX waits_of_ends ON waits (tenant_id, asked_on, asked_as) WHERE state = 'answered' AND kind = 'task_result'",
  ],
  down: ["DROP INDEX waits_of_ends", "DROP INDEX waits_of_tasks", "DROP INDEX idempotency_claimed"],
};
