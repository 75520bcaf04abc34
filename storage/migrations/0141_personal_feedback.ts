import type { Migration } from "../store/migration.ts";

const indexes = ["DROP INDEX skill_feedback_by_name", "DROP INDEX skill_feedback_by_status"];

/** Feedback on skills of personal libraries. */
export const migration: Migration = {
  revision: "0141",
  name: "personal_feedback",
  up: [
    // Empty for the tenant's library.
    "ALTER TABLE skill_feedback ADD COLUMN library TEXT NOT NULL DEFAULT ''",
    ...indexes,
    "CREATE INDEX skill_feedback_by_name ON skill_feedback (tenant_id, library, name, ts, id)",
    "CREATE INDEX skill_feedback_by_status ON skill_feedback (tenant_id, library, status, ts, id)",
  ],
  down: [
    ...indexes,
    "ALTER TABLE skill_feedback DROP COLUMN library",
    "CREATE INDEX skill_feedback_by_name ON skill_feedback (tenant_id, name, ts, id)",
    "CREATE INDEX skill_feedback_by_status ON skill_feedback (tenant_id, status, ts, id)",
  ],
};
