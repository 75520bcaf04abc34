import type { Migration } from "../store/migration.ts";

const feedbackColumns = [
  "improve BIGINT NOT NULL DEFAULT 0",
  "asked TEXT",
  "claimed_by TEXT",
  "claimed_at BIGINT",
  "heartbeat_at BIGINT",
  "attempts BIGINT NOT NULL DEFAULT 0",
  "due_at BIGINT",
  "result_version TEXT",
  "model TEXT",
  "error TEXT",
];

/** Evaluations of versions of skills, their scenarios, and rewrites from feedback: work that a worker claims. */
export const migration: Migration = {
  revision: "0145",
  name: "skill_jobs",
  up: [
    // due_at is null when there is nothing left to do. A claim moves it ahead, and each heartbeat does again.
    `CREATE TABLE skill_evals (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      library TEXT NOT NULL,
      name TEXT NOT NULL,
      version TEXT NOT NULL,
      status TEXT NOT NULL,
      scenario_source TEXT,
      scenarios TEXT NOT NULL,
      results TEXT NOT NULL,
      baseline_score DOUBLE PRECISION,
      with_skill_score DOUBLE PRECISION,
      uplift DOUBLE PRECISION,
      model TEXT,
      judge_model TEXT,
      error TEXT,
      gate_note TEXT NOT NULL,
      counts BIGINT NOT NULL,
      asked TEXT NOT NULL,
      started_at BIGINT,
      finished_at BIGINT,
      claimed_by TEXT,
      claimed_at BIGINT,
      heartbeat_at BIGINT,
      attempts BIGINT NOT NULL,
      due_at BIGINT,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX skill_evals_by_version ON skill_evals (tenant_id, library, name, version, ts, id)",
    "CREATE INDEX skill_evals_by_name ON skill_evals (tenant_id, library, name, ts, id)",
    "CREATE UNIQUE INDEX skill_evals_open ON skill_evals (tenant_id, library, name, version) WHERE due_at IS NOT NULL",
    "CREATE INDEX skill_evals_due ON skill_evals (due_at, tenant_id, id) WHERE due_at IS NOT NULL",
    "CREATE INDEX skill_evals_claimed ON skill_evals (claimed_by) WHERE claimed_by IS NOT NULL",
    "CREATE INDEX skill_evals_finished ON skill_evals (finished_at, tenant_id, id) WHERE finished_at IS NOT NULL",
    // The first evaluation of a skill stores its scenarios, so that later ones compare.
    `CREATE TABLE skill_scenarios (
      tenant_id TEXT NOT NULL,
      library TEXT NOT NULL,
      name TEXT NOT NULL,
      source TEXT NOT NULL,
      is_trusted BIGINT NOT NULL,
      scenarios TEXT NOT NULL,
      PRIMARY KEY (tenant_id, library, name)
    )`,
    // One row for each tenant: the jobs that it began on its newest day.
    `CREATE TABLE skill_job_days (
      tenant_id TEXT NOT NULL PRIMARY KEY,
      day BIGINT NOT NULL,
      jobs BIGINT NOT NULL
    )`,
    ...feedbackColumns.map((column) => `ALTER TABLE skill_feedback ADD COLUMN ${column}`),
    "CREATE INDEX skill_feedback_due ON skill_feedback (due_at, tenant_id, id) WHERE due_at IS NOT NULL",
    "CREATE INDEX skill_feedback_open ON skill_feedback (tenant_id, id) WHERE due_at IS NOT NULL",
    "CREATE INDEX skill_feedback_claimed ON skill_feedback (claimed_by) WHERE claimed_by IS NOT NULL",
  ],
  down: [
    ...["due", "open", "claimed"].map((index) => `DROP INDEX skill_feedback_${index}`),
    ...feedbackColumns.map((column) => `ALTER TABLE skill_feedback DROP COLUMN ${column.split(" ")[0]}`),
    "DROP TABLE skill_job_days",
    "DROP TABLE skill_scenarios",
    "DROP TABLE skill_evals",
  ],
};
