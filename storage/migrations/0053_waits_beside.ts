import type { Migration } from "../store/migration.ts";

/**
 * Waits of background tasks do not block the thread's run, and do not end with its own waits; see
 * storage/tables/waits.ts.
 */
export const migration: Migration = {
  revision: "0053",
  name: "waits_beside",
  up: ["ALTER TABLE waits ADD COLUMN beside BIGINT NOT NULL DEFAULT 0"],
  down: ["ALTER TABLE waits DROP COLUMN beside"],
};
