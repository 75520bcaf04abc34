import type { Migration } from "../store/migration.ts";

/** Index of open runs by the idempotency claim that they settle; few of the rows. */
export const migration: Migration = {
  revision: "0064",
  name: "claims_of_runs",
  up: [
    `CREATE INDEX runs_claims ON runs (tenant_id, idempotency_scope)
     WHERE ended_at IS NULL AND idempotency_scope IS NOT NULL`,
  ],
  down: ["DROP INDEX runs_claims"],
};
