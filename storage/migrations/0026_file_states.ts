import type { Migration } from "../store/migration.ts";

/** A file has a row from before its bytes are stored until after they are deleted, so that every object has a row. */
export const migration: Migration = {
  revision: "0026",
  name: "file_states",
  up: [
    // Every existing row is visible, because uploads did not exist before.
    "ALTER TABLE files ADD COLUMN state TEXT NOT NULL DEFAULT 'kept'",
    "ALTER TABLE files ADD COLUMN thread_key BIGINT",
    "CREATE INDEX files_of_thread ON files (tenant_id, thread_key) WHERE thread_key IS NOT NULL",
    // Few rows at any time.
    "CREATE INDEX files_unkept ON files (created_at) WHERE state <> 'kept'",
  ],
  down: [
    "DROP INDEX files_unkept",
    "DROP INDEX files_of_thread",
    "ALTER TABLE files DROP COLUMN thread_key",
    "ALTER TABLE files DROP COLUMN state",
  ],
};
