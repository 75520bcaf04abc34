import type { Migration } from "../store/migration.ts";

/** What background tasks ask is asked beside the conversation's run, and not ended with what that asks: see storage/tables/waits.ts. */
export const migration: Migration = {
  revision: "0053",
  name: "waits_beside",
  up: ["ALTER TABLE waits ADD COLUMN beside BIGINT NOT NULL DEFAULT 0"],
  down: ["ALTER TABLE waits DROP COLUMN beside"],
};
