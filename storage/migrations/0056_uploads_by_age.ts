import type { Migration } from "../store/migration.ts";

/** Uploads that are too old are found by their age. */
export const migration: Migration = {
  revision: "0056",
  name: "uploads_by_age",
  up: [
    "CREATE INDEX files_uploaded ON files (tenant_id, created_at, file_id) WHERE state = 'kept' AND thread_key IS NULL",
  ],
  down: ["DROP INDEX files_uploaded"],
};
