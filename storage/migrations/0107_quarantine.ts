import type { Migration } from "../store/migration.ts";

/** Texts that content screening has withheld from the model. */
export const migration: Migration = {
  revision: "0107",
  name: "quarantine",
  up: [
    `CREATE TABLE quarantine (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      expires_at BIGINT,
      thread_key BIGINT,
      thread_id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      tool TEXT NOT NULL,
      tool_call_id TEXT NOT NULL,
      findings TEXT NOT NULL,
      content TEXT NOT NULL,
      bytes BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX quarantine_of_thread ON quarantine (tenant_id, thread_key) WHERE thread_key IS NOT NULL",
    "CREATE INDEX quarantine_expiring ON quarantine (expires_at) WHERE expires_at IS NOT NULL",
  ],
  down: ["DROP TABLE quarantine"],
};
