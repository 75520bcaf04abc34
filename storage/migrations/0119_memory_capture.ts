import type { Migration } from "../store/migration.ts";

/** Turns whose facts are to be captured, counts of new facts, and memories that end with their host. */
export const migration: Migration = {
  revision: "0119",
  name: "memory_capture",
  up: [
    "ALTER TABLE memories ADD COLUMN lost_with TEXT",
    "CREATE INDEX memories_lost ON memories (lost_with) WHERE lost_with IS NOT NULL",
    `CREATE TABLE captures (
      tenant_id TEXT NOT NULL,
      run_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      thread_id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      principal TEXT NOT NULL,
      owner TEXT NOT NULL,
      from_seq BIGINT NOT NULL,
      until_seq BIGINT NOT NULL,
      request_id TEXT NOT NULL,
      taint TEXT NOT NULL,
      lost_with TEXT,
      due_at BIGINT NOT NULL,
      attempts BIGINT NOT NULL,
      claimed_by TEXT,
      PRIMARY KEY (tenant_id, run_id)
    )`,
    "CREATE INDEX captures_due ON captures (tenant_id, due_at)",
    "CREATE INDEX captures_claimed ON captures (claimed_by) WHERE claimed_by IS NOT NULL",
    "CREATE INDEX captures_of_thread ON captures (tenant_id, thread_key)",
    "CREATE INDEX captures_of_principal ON captures (tenant_id, principal)",
    `CREATE TABLE memory_pools (
      tenant_id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      owner TEXT NOT NULL,
      new_facts BIGINT NOT NULL,
      after_facts BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, manifest_id, owner)
    )`,
    "CREATE INDEX memory_pools_due ON memory_pools (new_facts) WHERE after_facts > 0 AND new_facts >= after_facts",
  ],
  down: [
    "DROP TABLE memory_pools",
    "DROP TABLE captures",
    "DROP INDEX memories_lost",
    "ALTER TABLE memories DROP COLUMN lost_with",
  ],
};
