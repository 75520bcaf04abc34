import { tenantSql } from "./statements.ts";
import type { TenantStore, WriteOp } from "./store.ts";

export interface AuditRow {
  readonly id: string;
  readonly ts: number;
  readonly event_type: string;
  readonly manifest_id: string;
  readonly principal_subj: string;
  readonly status: string;
  /** JSON, already masked. */
  readonly payload: string;
}

const insertAudit = tenantSql(
  "audit_insert",
  `INSERT INTO audit (tenant_id, id, ts, event_type, manifest_id, principal_subj, status, payload)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?)`,
);

export function insertAuditOp(store: TenantStore, row: AuditRow): WriteOp {
  return store.op(insertAudit, [
    row.id,
    row.ts,
    row.event_type,
    row.manifest_id,
    row.principal_subj,
    row.status,
    row.payload,
  ]);
}
