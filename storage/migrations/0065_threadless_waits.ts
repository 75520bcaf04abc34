import type { Migration } from "../store/migration.ts";

/** A wait of a run without a thread names the worker that holds the run; see storage/tables/abandoned-waits.ts. */
export const migration: Migration = {
  revision: "0065",
  name: "threadless_waits",
  up: [
    "ALTER TABLE waits ADD COLUMN owner TEXT",
    "CREATE INDEX waits_threadless ON waits (wait_id) WHERE thread_key < 0",
  ],
  down: ["DROP INDEX waits_threadless", "ALTER TABLE waits DROP COLUMN owner"],
};
