import type { Migration } from "../store/migration.ts";

/** The origins of imported skills, and the versions of skills at a code host that a tenant has seen. */
export const migration: Migration = {
  revision: "0140",
  name: "skill_upstreams",
  up: [
    `CREATE TABLE skill_upstreams (
      tenant_id TEXT NOT NULL,
      name TEXT NOT NULL,
      source TEXT NOT NULL,
      version TEXT NOT NULL,
      origin TEXT NOT NULL,
      tree_hash TEXT NOT NULL,
      upstream_commit TEXT,
      upstream_tree_hash TEXT,
      checked_at BIGINT,
      error TEXT,
      due_at BIGINT NOT NULL,
      notice_due BIGINT NOT NULL,
      noticed_tree_hash TEXT,
      PRIMARY KEY (tenant_id, name)
    )`,
    "CREATE INDEX skill_upstreams_by_source ON skill_upstreams (tenant_id, source)",
    "CREATE INDEX skill_upstreams_due ON skill_upstreams (due_at, tenant_id, name)",
    "CREATE INDEX skill_upstreams_noticed ON skill_upstreams (tenant_id, name) WHERE notice_due = 1",
    `CREATE TABLE skill_trees (
      tenant_id TEXT NOT NULL,
      repository_id BIGINT NOT NULL,
      tree_hash TEXT NOT NULL,
      first_seen_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, repository_id, tree_hash)
    )`,
    "CREATE INDEX skill_trees_by_time ON skill_trees (first_seen_at)",
  ],
  down: ["DROP TABLE skill_trees", "DROP TABLE skill_upstreams"],
};
