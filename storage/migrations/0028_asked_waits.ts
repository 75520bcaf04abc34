import type { Migration } from "../store/migration.ts";

/** Finds a wait by the id that clients received, and counts the open waits of a tenant. */
export const migration: Migration = {
  revision: "0028",
  name: "asked_waits",
  up: [
    "ALTER TABLE waits ADD COLUMN asked_as TEXT",
    "CREATE INDEX waits_open ON waits (tenant_id, thread_key, asked_as) WHERE state = 'open'",
  ],
  down: ["DROP INDEX waits_open", "ALTER TABLE waits DROP COLUMN asked_as"],
};
