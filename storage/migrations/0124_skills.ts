import type { Migration } from "../store/migration.ts";

/** The skill library: skills with their versions, and one row of each tenant for its policy and the number of its changes. */
export const migration: Migration = {
  revision: "0124",
  name: "skills",
  up: [
    // The revision grows with each change of what a library publishes. Caches compare it, and every such change guards on it.
    `CREATE TABLE skill_catalogs (
      tenant_id TEXT NOT NULL PRIMARY KEY,
      revision BIGINT NOT NULL,
      policy TEXT,
      policy_at BIGINT,
      policy_by TEXT
    )`,
    // The library is empty for the tenant's own, else the digest of a person.
    `CREATE TABLE skills (
      tenant_id TEXT NOT NULL,
      library TEXT NOT NULL,
      name TEXT NOT NULL,
      owner TEXT NOT NULL,
      live_version TEXT,
      latest_version TEXT NOT NULL,
      pending_drafts BIGINT NOT NULL,
      is_deleted BIGINT NOT NULL,
      created_by TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, library, name)
    )`,
    // The object store has the files. A version has a row before they are stored; is_stored is 1 when they are.
    `CREATE TABLE skill_versions (
      tenant_id TEXT NOT NULL,
      library TEXT NOT NULL,
      name TEXT NOT NULL,
      version TEXT NOT NULL,
      rank TEXT NOT NULL,
      is_stored BIGINT NOT NULL,
      parent_version TEXT,
      status TEXT NOT NULL,
      source TEXT NOT NULL,
      author TEXT NOT NULL,
      origin_manifest_id TEXT,
      session_id TEXT,
      reason TEXT NOT NULL,
      quality_score BIGINT NOT NULL,
      security_status TEXT NOT NULL,
      published_by TEXT NOT NULL,
      decided_by TEXT,
      decision_note TEXT,
      created_at BIGINT NOT NULL,
      decided_at BIGINT,
      published_at BIGINT,
      origin TEXT NOT NULL,
      lineage_import BIGINT NOT NULL,
      adopted_from TEXT,
      promoted_from TEXT,
      digest TEXT NOT NULL,
      head TEXT NOT NULL,
      review TEXT NOT NULL,
      files TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, library, name, version)
    )`,
    `CREATE INDEX skill_versions_pending ON skill_versions (tenant_id, library, created_at, name, version)
      WHERE status = 'draft' AND is_stored = 1`,
  ],
  down: ["DROP TABLE skill_versions", "DROP TABLE skills", "DROP TABLE skill_catalogs"],
};
