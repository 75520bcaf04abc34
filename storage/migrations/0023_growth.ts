import type { Migration, Step } from "../store/migration.ts";

const sums = ["calls", "tokens_input", "tokens_output", "cache_creation", "cache_read", "cost_usd"];
const columns = ["tenant_id", "day", "manifest_id", "model_id", "slot", ...sums].join(", ");
const key = "tenant_id, day, manifest_id, model_id, slot";
const tokens = ["tokens_input", "tokens_output", "cache_creation", "cache_read", "cost_usd"];
const addNew = (slot: string) => `INSERT INTO usage_days (${columns})
  VALUES (NEW.tenant_id, NEW.ts / 86400000, NEW.manifest_id, NEW.model_id, ${slot}, 1, ${tokens.map((name) => `NEW.${name}`).join(", ")})
  ON CONFLICT (${key}) DO UPDATE SET ${sums.map((name) => `${name} = usage_days.${name} + excluded.${name}`).join(", ")};`;

/** Resets the index position of all logs, so that the indexing task indexes them again. */
const indexAgain: Step = "UPDATE threads SET indexed_seq = 0 WHERE indexed_seq > 0";

/**
 * Keeps costs constant as a tenant grows: daily sums of usage, tenant-specific words in the index, and a count of
 * stored bytes.
 */
export const migration: Migration = {
  revision: "0023",
  name: "growth",
  up: [
    // See storage/tables/usage.ts. A trigger writes the sums, so that a turn sends nothing more across a thread or a
    // network. On Postgres each connection has a slot, so that concurrent turns do not wait for one row.
    `CREATE TABLE usage_days (
      tenant_id TEXT NOT NULL,
      day BIGINT NOT NULL,
      manifest_id TEXT NOT NULL,
      model_id TEXT NOT NULL,
      slot BIGINT NOT NULL,
      calls BIGINT NOT NULL,
      tokens_input BIGINT NOT NULL,
      tokens_output BIGINT NOT NULL,
      cache_creation BIGINT NOT NULL,
      cache_read BIGINT NOT NULL,
      cost_usd {{float}} NOT NULL,
      PRIMARY KEY (${key})
    ) {{clustered}}`,
    `INSERT INTO usage_days (${columns})
      SELECT tenant_id, ts / 86400000, manifest_id, model_id, 0, COUNT(*), ${tokens.map((name) => `SUM(${name})`).join(", ")}
      FROM usage GROUP BY tenant_id, ts / 86400000, manifest_id, model_id`,
    {
      sqlite: `CREATE TRIGGER usage_add AFTER INSERT ON usage BEGIN ${addNew("0")} END`,
      postgres: `CREATE FUNCTION svc_usage_add() RETURNS TRIGGER LANGUAGE plpgsql AS $$
        BEGIN ${addNew("pg_backend_pid() % 64")} RETURN NULL; END $$`,
    },
    { postgres: "CREATE TRIGGER usage_add AFTER INSERT ON usage FOR EACH ROW EXECUTE FUNCTION svc_usage_add()" },
    // Each word carries the mark of its tenant; see storage/tables/search.ts.
    "DROP TABLE event_search",
    {
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
    indexAgain,
    // See storage/tables/stored-bytes.ts.
    `CREATE TABLE stored_bytes (
      tenant_id TEXT NOT NULL,
      kind TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, kind)
    ) {{clustered}}`,
    ...["manifests", "all"].map(
      (kind): Step => `INSERT INTO stored_bytes (tenant_id, kind, bytes)
          SELECT tenant_id, '${kind}', SUM(octet_length(manifest) + octet_length(comment)) FROM manifest_versions GROUP BY tenant_id`,
    ),
  ],
  down: [
    "DROP TABLE stored_bytes",
    "DROP TABLE event_search",
    {
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
    indexAgain,
    { sqlite: "DROP TRIGGER usage_add", postgres: "DROP TRIGGER usage_add ON usage" },
    { postgres: "DROP FUNCTION svc_usage_add()" },
    "DROP TABLE usage_days",
  ],
};
