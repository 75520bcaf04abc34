import type { Migration } from "../store/migration.ts";

/** The threads that show a file besides the one that created it: their forks. */
export const migration: Migration = {
  revision: "0061",
  name: "file_shares",
  up: [
    `CREATE TABLE file_shares (
      tenant_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      file_id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, thread_key, file_id)
    ) {{clustered}}`,
    "CREATE INDEX file_shares_of_file ON file_shares (tenant_id, file_id)",
  ],
  down: ["DROP TABLE file_shares"],
};
