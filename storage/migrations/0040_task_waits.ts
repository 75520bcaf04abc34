import type { Migration } from "../store/migration.ts";

/** A task's waits are shown and answered on the thread that the task belongs to; see storage/tables/waits.ts. */
export const migration: Migration = {
  revision: "0040",
  name: "task_waits",
  up: [
    "ALTER TABLE waits ADD COLUMN asked_on BIGINT NOT NULL DEFAULT -1",
    "UPDATE waits SET asked_on = thread_key",
    "DROP INDEX waits_open",
    "CREATE INDEX waits_open ON waits (tenant_id, asked_on, asked_as) WHERE state = 'open'",
  ],
  down: [
    "DROP INDEX waits_open",
    "CREATE INDEX waits_open ON waits (tenant_id, thread_key, asked_as) WHERE state = 'open'",
    "ALTER TABLE waits DROP COLUMN asked_on",
  ],
};
