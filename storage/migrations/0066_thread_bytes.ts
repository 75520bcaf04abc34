import type { Migration } from "../store/migration.ts";

/** The byte count of a thread's log, in the row of the thread; see `eventBytes` of storage/tables/events.ts. */
export const migration: Migration = {
  revision: "0066",
  name: "thread_bytes",
  up: [
    "ALTER TABLE threads ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0",
    `UPDATE threads SET bytes = COALESCE((
       SELECT SUM(256 + OCTET_LENGTH(e.content) + COALESCE(OCTET_LENGTH(e.extra), 0)) FROM events e
       WHERE e.event_key >= threads.thread_key * 16777216 AND e.event_key < (threads.thread_key + 1) * 16777216), 0)`,
  ],
  down: ["ALTER TABLE threads DROP COLUMN bytes"],
};
