import type { Migration } from "../store/migration.ts";

/** Index of uploads by age, to find the expired ones. */
export const migration: Migration = {
  revision: "0056",
  name: "uploads_by_age",
  up: [
    "CREATE INDEX files_uploaded ON files (tenant_id, created_at, file_id) WHERE state = 'kept' AND thread_key IS NULL",
  ],
  down: ["DROP INDEX files_uploaded"],
};
