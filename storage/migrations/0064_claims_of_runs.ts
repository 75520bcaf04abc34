import type { Migration } from "../store/migration.ts";

/** Few of many rows: open runs whose request may be sent again, by the claim that they settle. */
export const migration: Migration = {
  revision: "0064",
  name: "claims_of_runs",
  up: [
    `CREATE INDEX runs_claims ON runs (tenant_id, idempotency_scope)
     WHERE ended_at IS NULL AND idempotency_scope IS NOT NULL`,
  ],
  down: ["DROP INDEX runs_claims"],
};
