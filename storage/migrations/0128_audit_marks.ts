import type { Migration } from "../store/migration.ts";

/**
 * Marks the audit rows from before 0110, so that they are sealed. It is a step of its own, because 0110 locks the table for the
 * trigger, and a copy in that step would delay every audit row. Tenants with a head were sealed already.
 */
export const migration: Migration = {
  revision: "0128",
  name: "audit_marks",
  up: [
    `INSERT INTO audit_unsealed (tenant_id, ts, id) SELECT tenant_id, ts, id FROM audit
     WHERE NOT EXISTS (SELECT 1 FROM audit_heads h WHERE h.tenant_id = audit.tenant_id) ON CONFLICT DO NOTHING`,
  ],
  down: [],
};
