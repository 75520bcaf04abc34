import type { Migration } from "../store/migration.ts";

/** Indexes of waits for queue consumers: by call id in any state, and by time for those to push again. */
export const migration: Migration = {
  revision: "0055",
  name: "queued_waits",
  up: [
    "ALTER TABLE waits ADD COLUMN push TEXT",
    "CREATE INDEX waits_queued ON waits (tenant_id, asked_as) WHERE kind = 'queue'",
    "CREATE INDEX waits_to_push ON waits (opened_at, wait_id) WHERE push IS NOT NULL",
  ],
  down: ["DROP INDEX waits_to_push", "DROP INDEX waits_queued", "ALTER TABLE waits DROP COLUMN push"],
};
