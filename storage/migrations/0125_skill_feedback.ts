import type { Migration } from "../store/migration.ts";

/** Feedback on skills of the tenant's library. */
export const migration: Migration = {
  revision: "0125",
  name: "skill_feedback",
  up: [
    `CREATE TABLE skill_feedback (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      name TEXT NOT NULL,
      target_version TEXT,
      source TEXT NOT NULL,
      author TEXT NOT NULL,
      principal TEXT,
      body TEXT NOT NULL,
      suggested_patch TEXT,
      status TEXT NOT NULL,
      decided_at BIGINT,
      decided_by TEXT,
      decision_note TEXT,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX skill_feedback_by_name ON skill_feedback (tenant_id, name, ts, id)",
    "CREATE INDEX skill_feedback_by_status ON skill_feedback (tenant_id, status, ts, id)",
  ],
  down: ["DROP TABLE skill_feedback"],
};
