import type { Migration } from "../store/migration.ts";

/** The documents of tenants, their chunks, and the full-text index over the chunks. */
export const migration: Migration = {
  revision: "0113",
  name: "documents",
  up: [
    "INSERT INTO counters (name, value) VALUES ('document_key', 1)",
    `CREATE TABLE documents (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      document_key BIGINT NOT NULL,
      title TEXT NOT NULL,
      source TEXT NOT NULL,
      metadata TEXT NOT NULL,
      chunks BIGINT NOT NULL,
      chars BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE UNIQUE INDEX documents_key ON documents (document_key)",
    "CREATE INDEX documents_recent ON documents (tenant_id, ts, id)",
    // chunk_key is the document's key and the chunk's number in one integer; see storage/tables/documents.ts.
    "CREATE TABLE document_chunks (tenant_id TEXT NOT NULL, chunk_key {{key}}, content TEXT NOT NULL)",
    {
      sqlite: `CREATE VIRTUAL TABLE document_search USING fts5 (
        content, content='', contentless_delete=1, tokenize='porter unicode61'
      )`,
      postgres: `CREATE TABLE document_search (
        tenant_id TEXT NOT NULL,
        chunk_key BIGINT PRIMARY KEY,
        document tsvector NOT NULL
      )`,
    },
    { postgres: "CREATE INDEX document_search_document ON document_search USING gin (document)" },
  ],
  down: [
    "DROP TABLE document_search",
    "DROP TABLE document_chunks",
    "DROP TABLE documents",
    "DELETE FROM counters WHERE name = 'document_key'",
  ],
};
