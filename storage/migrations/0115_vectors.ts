import type { Migration } from "../store/migration.ts";

/**
 * Vectors of texts, and the texts that still need one. SQLite also keeps one bit for each number, which triggers derive: a search of
 * many vectors reads the bits first.
 */
export const migration: Migration = {
  revision: "0115",
  name: "vectors",
  up: [
    `CREATE TABLE vector_queue (
      tenant_id TEXT NOT NULL,
      corpus TEXT NOT NULL,
      key BIGINT NOT NULL,
      ts BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, corpus, key)
    ) {{clustered}}`,
    {
      sqlite: `CREATE TABLE vectors (
        tenant_id TEXT NOT NULL,
        corpus TEXT NOT NULL,
        key INTEGER NOT NULL,
        model TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        embedding BLOB NOT NULL,
        PRIMARY KEY (tenant_id, corpus, key)
      )`,
      // An array and not a vector, so that the table exists without pgvector.
      postgres: `CREATE TABLE vectors (
        tenant_id TEXT NOT NULL,
        corpus TEXT NOT NULL,
        key BIGINT NOT NULL,
        model TEXT NOT NULL,
        dimensions BIGINT NOT NULL,
        embedding REAL[] NOT NULL,
        PRIMARY KEY (tenant_id, corpus, key)
      )`,
    },
    {
      sqlite: `CREATE TABLE vector_bits (
        tenant_id TEXT NOT NULL,
        corpus TEXT NOT NULL,
        key INTEGER NOT NULL,
        model TEXT NOT NULL,
        dimensions INTEGER NOT NULL,
        bits BLOB NOT NULL,
        PRIMARY KEY (tenant_id, corpus, key)
      ) WITHOUT ROWID`,
    },
    {
      sqlite: `CREATE TRIGGER vectors_bits_insert AFTER INSERT ON vectors BEGIN
        INSERT INTO vector_bits (tenant_id, corpus, key, model, dimensions, bits)
        VALUES (NEW.tenant_id, NEW.corpus, NEW.key, NEW.model, NEW.dimensions, vec_quantize_binary(NEW.embedding));
      END`,
    },
    {
      sqlite: `CREATE TRIGGER vectors_bits_update AFTER UPDATE ON vectors BEGIN
        UPDATE vector_bits SET model = NEW.model, dimensions = NEW.dimensions, bits = vec_quantize_binary(NEW.embedding)
        WHERE tenant_id = NEW.tenant_id AND corpus = NEW.corpus AND key = NEW.key;
      END`,
    },
    {
      sqlite: `CREATE TRIGGER vectors_bits_delete AFTER DELETE ON vectors BEGIN
        DELETE FROM vector_bits WHERE tenant_id = OLD.tenant_id AND corpus = OLD.corpus AND key = OLD.key;
      END`,
    },
  ],
  down: [{ sqlite: "DROP TABLE vector_bits" }, "DROP TABLE vectors", "DROP TABLE vector_queue"],
};
