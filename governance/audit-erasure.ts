import { hostAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { SvcError } from "../bus/errors.ts";
import { splitNodeId } from "../bus/protocol/node-id.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { type AuditRow, auditExport, erasePayloadOp } from "../storage/tables/audit.ts";
import { erasedPayload } from "./audit-chain.ts";

/** An audit row, as far as an erasure reads it. */
export type AuditedRow = Pick<AuditRow, "event_type" | "payload">;

/** Max time of a host to write its buffered rows. */
const flushMs = 10_000;

/**
 * Makes every host write the audit rows that it buffers, so that an erasure finds them. Refuses if a host does not answer or cannot
 * write them.
 */
export async function flushAudit(bus: Bus): Promise<void> {
  const hosts = new Set(bus.actorNodes.map((node) => splitNodeId(node).host));
  const task = { name: "flush_audit", why: "asked", hands_on: false } as const;
  const runs = await Promise.all(
    [...hosts].map((host) => bus.ask(hostAddress(host), "task", task, { deadlineMs: flushMs })),
  );
  if (runs.some(({ answer }) => answer !== "done")) throw new SvcError("shutting_down");
}

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
