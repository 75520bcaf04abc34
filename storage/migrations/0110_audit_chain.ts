import type { Migration } from "../store/migration.ts";

const mark = "INSERT INTO audit_unsealed (tenant_id, ts, id) VALUES (NEW.tenant_id, NEW.ts, NEW.id);";

/** The chain of keyed hashes over the audit rows of each tenant; see storage/tables/audit-seals.ts. */
export const migration: Migration = {
  revision: "0110",
  name: "audit_chain",
  up: [
    `CREATE TABLE audit_unsealed (
      tenant_id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, ts, id)
    ) {{clustered}}`,
    `CREATE TABLE audit_seals (
      tenant_id TEXT NOT NULL,
      first_seq BIGINT NOT NULL,
      last_seq BIGINT NOT NULL,
      last_ts BIGINT NOT NULL,
      sealed_at BIGINT NOT NULL,
      key_id TEXT NOT NULL,
      entries TEXT NOT NULL,
      PRIMARY KEY (tenant_id, first_seq)
    ) {{clustered}}`,
    `CREATE TABLE audit_heads (
      tenant_id TEXT PRIMARY KEY NOT NULL,
      seq BIGINT NOT NULL,
      hash TEXT NOT NULL,
      key_id TEXT NOT NULL,
      sealed_at BIGINT NOT NULL,
      base_seq BIGINT NOT NULL,
      base_hash TEXT NOT NULL,
      pruned_before BIGINT NOT NULL,
      base_key_id TEXT NOT NULL,
      base_mac TEXT NOT NULL
    ) {{clustered}}`,
    // A trigger, so that every way to write an audit row marks it.
    {
      sqlite: `CREATE TRIGGER audit_mark AFTER INSERT ON audit BEGIN ${mark} END`,
      postgres: `CREATE FUNCTION svc_audit_mark() RETURNS TRIGGER LANGUAGE plpgsql AS $$
        BEGIN ${mark} RETURN NULL; END $$`,
    },
    { postgres: "CREATE TRIGGER audit_mark AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION svc_audit_mark()" },
    // 0128 marks older rows.
  ],
  down: [
    { sqlite: "DROP TRIGGER audit_mark", postgres: "DROP TRIGGER audit_mark ON audit" },
    { postgres: "DROP FUNCTION svc_audit_mark()" },
    "DROP TABLE audit_heads",
    "DROP TABLE audit_seals",
    "DROP TABLE audit_unsealed",
  ],
};
