import type { Migration } from "../store/migration.ts";

/** Long tool results that are stored apart from the log. */
export const migration: Migration = {
  revision: "0100",
  name: "artifacts",
  up: [
    // The object store has the text. An artifact has a row before its text is stored and until it is deleted.
    `CREATE TABLE artifacts (
      tenant_id TEXT NOT NULL,
      artifact_id TEXT NOT NULL,
      manifest TEXT NOT NULL,
      tool TEXT NOT NULL,
      taint TEXT NOT NULL,
      chars BIGINT NOT NULL,
      size_bytes BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      state TEXT NOT NULL,
      thread_key BIGINT,
      PRIMARY KEY (tenant_id, artifact_id)
    )`,
    "CREATE INDEX artifacts_of_thread ON artifacts (tenant_id, thread_key) WHERE thread_key IS NOT NULL",
    "CREATE INDEX artifacts_unkept ON artifacts (created_at) WHERE state <> 'kept'",
    "CREATE INDEX artifacts_by_time ON artifacts (tenant_id, created_at, artifact_id) WHERE state = 'kept'",
    // Forks that show an artifact of their source.
    `CREATE TABLE artifact_shares (
      tenant_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      artifact_id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, thread_key, artifact_id)
    ) {{clustered}}`,
    "CREATE INDEX artifact_shares_of_artifact ON artifact_shares (tenant_id, artifact_id)",
  ],
  down: ["DROP TABLE artifact_shares", "DROP TABLE artifacts"],
};
