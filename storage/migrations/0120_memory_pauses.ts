import type { Migration } from "../store/migration.ts";

/** Pauses of captures whose budget is spent, and the delays of pools that could not be merged. */
export const migration: Migration = {
  revision: "0120",
  name: "memory_pauses",
  up: [
    "ALTER TABLE captures ADD COLUMN pauses BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE memory_pools ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE memory_pools ADD COLUMN failures BIGINT NOT NULL DEFAULT 0",
    "DROP INDEX memory_pools_due",
    `CREATE INDEX memory_pools_due ON memory_pools (tenant_id, due_at)
       WHERE after_facts > 0 AND new_facts >= after_facts`,
  ],
  down: [
    "DROP INDEX memory_pools_due",
    "CREATE INDEX memory_pools_due ON memory_pools (new_facts) WHERE after_facts > 0 AND new_facts >= after_facts",
    "ALTER TABLE memory_pools DROP COLUMN failures",
    "ALTER TABLE memory_pools DROP COLUMN due_at",
    "ALTER TABLE captures DROP COLUMN pauses",
  ],
};
