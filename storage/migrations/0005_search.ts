import type { Migration } from "../store/migration.ts";

/**
 * Full-text index over the messages of users and agents. storage/tables/search.ts fills it from the log, so it can be
 * rebuilt at any time.
 */
export const migration: Migration = {
  revision: "0005",
  name: "search",
  up: [
    {
      // The index holds words only; the text stays in the log. The tenant column limits a search to one tenant's words.
      sqlite: `CREATE VIRTUAL TABLE event_search USING fts5 (
        tenant, content, content='', contentless_delete=1, tokenize='porter unicode61'
      )`,
      postgres: `CREATE TABLE event_search (
        tenant_id TEXT NOT NULL,
        event_key BIGINT PRIMARY KEY,
        document tsvector NOT NULL
      )`,
    },
    { postgres: "CREATE INDEX event_search_document ON event_search USING gin (document)" },
    // English stems and no stop words, as on SQLite: a search for "the" finds it.
    { postgres: "CREATE TEXT SEARCH DICTIONARY svc_stem (TEMPLATE = snowball, LANGUAGE = english)" },
    { postgres: "CREATE TEXT SEARCH CONFIGURATION svc_words (PARSER = pg_catalog.default)" },
    {
      postgres: `ALTER TEXT SEARCH CONFIGURATION svc_words
        ADD MAPPING FOR asciiword, word, numword, int, uint, float, sfloat, version WITH svc_stem`,
    },
  ],
  down: [
    "DROP TABLE event_search",
    { postgres: "DROP TEXT SEARCH CONFIGURATION svc_words" },
    { postgres: "DROP TEXT SEARCH DICTIONARY svc_stem" },
  ],
};
