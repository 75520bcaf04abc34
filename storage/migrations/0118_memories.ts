import type { Migration } from "../store/migration.ts";

/** Facts that agents and operators store, and the full-text index over them. */
export const migration: Migration = {
  revision: "0118",
  name: "memories",
  up: [
    `CREATE TABLE memories (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      memory_key BIGINT NOT NULL,
      kind TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      content TEXT NOT NULL,
      source TEXT NOT NULL,
      principal TEXT NOT NULL,
      owner TEXT NOT NULL,
      personal BIGINT NOT NULL,
      thread_id TEXT NOT NULL,
      thread_key BIGINT,
      origin_seq BIGINT,
      topic_key TEXT,
      importance DOUBLE PRECISION NOT NULL,
      taint TEXT NOT NULL,
      status TEXT NOT NULL,
      superseded_by TEXT,
      superseded_seq BIGINT,
      forgotten_by TEXT,
      forgotten_rank BIGINT,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      last_used_at BIGINT,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE UNIQUE INDEX memories_key ON memories (memory_key)",
    "CREATE INDEX memories_by_status ON memories (tenant_id, status, ts, id)",
    "CREATE INDEX memories_by_thread ON memories (tenant_id, thread_id, status, ts, id)",
    "CREATE INDEX memories_by_turn ON memories (tenant_id, thread_id, origin_seq)",
    "CREATE INDEX memories_of_thread ON memories (tenant_id, thread_key) WHERE thread_key IS NOT NULL",
    "CREATE INDEX memories_by_agent ON memories (tenant_id, manifest_id, status, ts, id)",
    "CREATE INDEX memories_by_principal ON memories (tenant_id, principal, id)",
    "CREATE INDEX memories_by_topic ON memories (tenant_id, manifest_id, topic_key) WHERE topic_key IS NOT NULL",
    {
      sqlite: `CREATE VIRTUAL TABLE memory_search USING fts5 (
        content, content='', contentless_delete=1, tokenize='porter unicode61'
      )`,
      postgres: `CREATE TABLE memory_search (
        tenant_id TEXT NOT NULL,
        memory_key BIGINT PRIMARY KEY,
        document tsvector NOT NULL
      )`,
    },
    { postgres: "CREATE INDEX memory_search_document ON memory_search USING gin (document)" },
  ],
  down: ["DROP TABLE memory_search", "DROP TABLE memories"],
};
