import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";

const lock = tenantSql("tenant_lock", {
  sqlite: "SELECT :tenant AS tenant, ? AS what",
  postgres:
    "SELECT CAST(pg_advisory_xact_lock(hashtextextended(:tenant || '/' || CAST(? AS TEXT), 0)) AS TEXT) AS taken",
});

/**
 * Makes the later statements of the batch see what other batches with the same lock have written, and those wait for this one. A
 * statement that counts rows and inserts one needs it on Postgres: two of them at once would not see the row of each other. SQLite writes
 * one batch after the other.
 */
export function lockTenantOp(store: TenantStore, what: string): WriteOp {
  return store.op(lock, [what]);
}
