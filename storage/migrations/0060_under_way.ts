import type { Migration } from "../store/migration.ts";

/** Few of many rows: claims that wait for their answer, what tasks ask, by their own conversation, and ends of tasks that nobody has heard of. */
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
