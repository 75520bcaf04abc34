import type { Migration } from "../store/migration.ts";

/** Finds the newest record of a thread without a scan of its log. Events that are no records get no entry in the index. */
export const migration: Migration = {
  revision: "0131",
  name: "thread_records",
  up: [
    `CREATE INDEX events_records ON events (tenant_id, event_key) WHERE kind = 'audit' AND extra LIKE '%"record":"%'`,
  ],
  down: ["DROP INDEX events_records"],
};
