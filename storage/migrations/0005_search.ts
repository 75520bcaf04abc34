import type { Migration } from "../migrate.ts";

/** Full text over what people and agents have said. Filled from the log by storage/search.ts, so it can be rebuilt at any time. */
export const migration: Migration = {
  revision: "0005",
  name: "search",
  up: {
    // The text stays in the log; the index holds words only. Its tenant column lets a search read one tenant's words.
    sqlite: [
      "CREATE VIRTUAL TABLE event_search USING fts5 (tenant, content, content='', contentless_delete=1, tokenize='porter unicode61')",
    ],
    postgres: [
      `CREATE TABLE event_search (
        tenant_id TEXT NOT NULL,
        event_key BIGINT PRIMARY KEY,
        document tsvector NOT NULL
      )`,
      "CREATE INDEX event_search_document ON event_search USING gin (document)",
    ],
  },
  down: ["DROP TABLE event_search"],
};
