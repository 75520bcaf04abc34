import type { Migration } from "../store/migration.ts";

/** The files from which documents were made. */
export const migration: Migration = {
  revision: "0126",
  name: "document_files",
  up: [
    // The object store has the bytes. A file has a row before its bytes are stored and until they are deleted.
    `CREATE TABLE document_files (
      tenant_id TEXT NOT NULL,
      file_id TEXT NOT NULL,
      doc_id TEXT NOT NULL,
      media_type TEXT NOT NULL,
      size_bytes BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      state TEXT NOT NULL,
      PRIMARY KEY (tenant_id, file_id)
    )`,
    "CREATE UNIQUE INDEX document_files_of_document ON document_files (tenant_id, doc_id) WHERE state = 'kept'",
    "CREATE INDEX document_files_unkept ON document_files (created_at) WHERE state <> 'kept'",
  ],
  down: ["DROP TABLE document_files"],
};
