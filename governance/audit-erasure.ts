import type { TenantStore } from "../storage/store/store.ts";
import { type AuditRow, auditExport, erasePayloadOp } from "../storage/tables/audit.ts";
import { erasedPayload } from "./audit-chain.ts";

/** An audit row, as far as an erasure reads it. */
export type AuditedRow = Pick<AuditRow, "event_type" | "payload">;

/**
 * Erases the payloads of audit rows since a time that `isPersonal` names; returns their number. The chain of the rows still verifies
 * (decision 190: it hashes the digest of a payload). Types, times and principals of the rows stay.
 */
export async function eraseAudit(
  store: TenantStore,
  since: number,
  isPersonal: (row: AuditedRow) => boolean,
): Promise<number> {
  let erased = 0;
  for await (const page of auditExport(store, { since })) {
    const rows = page.filter((row) => row.payload !== erasedPayload && isPersonal(row));
    if (rows.length > 0) await store.write(rows.map(({ ts, id }) => erasePayloadOp(store, ts, id, erasedPayload)));
    erased += rows.length;
  }
  return erased;
}
