import type { Step } from "../../store/migration.ts";

/** The full-text index over messages. storage/tables/search.ts fills it from the log and can rebuild it at any time. */
export const searchTables: readonly Step[] = [
  {
    // The log keeps the text; the index holds only words, each with a mark of its tenant.
    sqlite: `CREATE VIRTUAL TABLE event_search USING fts5 (
      content, content='', contentless_delete=1, tokenize='porter unicode61'
    )`,
    postgres: `CREATE TABLE event_search (
      tenant_id TEXT NOT NULL,
      event_key BIGINT PRIMARY KEY,
      document tsvector NOT NULL
    )`,
  },
  { postgres: "CREATE INDEX event_search_document ON event_search USING gin (document)" },
  // English stems and no stop words, as in SQLite: a search for "the" finds it.
  { postgres: "CREATE TEXT SEARCH DICTIONARY svc_stem (TEMPLATE = snowball, LANGUAGE = english)" },
  { postgres: "CREATE TEXT SEARCH CONFIGURATION svc_words (PARSER = pg_catalog.default)" },
  {
    postgres: `ALTER TEXT SEARCH CONFIGURATION svc_words
      ADD MAPPING FOR asciiword, word, numword, int, uint, float, sfloat, version WITH svc_stem`,
  },
];

export const dropSearchTables: readonly Step[] = [
  "DROP TABLE event_search",
  { postgres: "DROP TEXT SEARCH CONFIGURATION svc_words" },
  { postgres: "DROP TEXT SEARCH DICTIONARY svc_stem" },
];
