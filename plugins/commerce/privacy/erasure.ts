import { createHmac } from "node:crypto";
import { threadAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { type AuditedRow, eraseAudit, flushAudit } from "../../../governance/audit-erasure.ts";
import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Scope, TenantStore } from "../../../storage/store/store.ts";

// Removes what identifies shoppers (decision 297: rows, conversations, approvals, ACP sessions and audit). Orders and attribution
// keep their amounts. Rows of consents stay as evidence: their subject becomes a keyed hash of the address.

/** Max time for an aborted run to write its last batch, and to delete a conversation. */
const abortMs = 30_000;
const eraseMs = 600_000;

const threadsOf = tenantSql(
  "commerce_threads_of_buyer",
  `SELECT thread_id, ts FROM commerce_sessions WHERE tenant_id = :tenant AND buyer_subject = ?
   UNION SELECT thread_id, ts FROM commerce_orders
     WHERE tenant_id = :tenant AND (email = ? OR buyer_subject = ?) AND thread_id <> '' AND cart_version >= 0`,
);
const ofOrders = tenantSql(
  "commerce_orders_erase_buyer",
  `UPDATE commerce_orders SET email = NULL, buyer_subject = NULL
   WHERE tenant_id = :tenant AND (email = ? OR buyer_subject = ?) RETURNING id`,
);
const ofAttribution = tenantSql(
  "commerce_attribution_erase_buyer",
  "UPDATE commerce_attribution SET buyer_subject = NULL WHERE tenant_id = :tenant AND buyer_subject = ?",
);
const ofSessions = tenantSql(
  "commerce_sessions_erase_buyer",
  "DELETE FROM commerce_sessions WHERE tenant_id = :tenant AND buyer_subject = ?",
);
const ofConsents = tenantSql(
  "commerce_consents_erase_buyer",
  "UPDATE commerce_consents SET subject = ? WHERE tenant_id = :tenant AND thread_id = ?",
);
const ofBuyers = tenantSql(
  "commerce_buyers_erase",
  `UPDATE commerce_buyers SET email = '', name = '', subject = NULL, status = 'suspended', version = version + 1
   WHERE tenant_id = :tenant AND LOWER(email) = ?`,
);
// A session whose completion has begun is kept, because its payment is settled by it. All sessions end after a day.
const ofAcp = tenantSql(
  "commerce_acp_sessions_erase_buyer",
  `DELETE FROM commerce_acp_sessions WHERE tenant_id = :tenant AND LOWER(given) LIKE '%"email":' || CAST(? AS TEXT) || '%' ESCAPE '!'
     AND (status IN ('completed', 'canceled') OR claimed_until = 0 AND given NOT LIKE '%"locked":%')`,
);
const oldOrders = systemSql(
  "commerce_orders_erase_old",
  `UPDATE commerce_orders SET email = NULL, buyer_subject = NULL
   WHERE ts < ? AND (email IS NOT NULL OR buyer_subject IS NOT NULL)`,
);
const oldAttribution = systemSql(
  "commerce_attribution_erase_old",
  "UPDATE commerce_attribution SET buyer_subject = NULL WHERE created_at < ? AND buyer_subject IS NOT NULL",
);
const oldSessions = systemSql(
  "commerce_sessions_delete_old",
  "DELETE FROM commerce_sessions WHERE ts < ? AND cart_at < ?",
);

/** Audit types of the shop whose payloads have facts of orders, carts and consents, and no words of a conversation. */
const factTypes = new Set(["commerce_order", "cart_abandoned", "consent_recorded"]);

/** The services of an erasure. */
export interface ErasureDeps {
  readonly bus: Bus;
  readonly store: TenantStore;
  /** Signs the hash that takes the place of the address in consents. */
  readonly key: string;
}

/** The numbers of erased rows and conversations. */
export interface Erased {
  readonly orders: number;
  readonly threads: number;
  readonly audit_rows: number;
}

/**
 * Removes an address in lower case from the rows of a tenant, with the conversations in which it was given. A repeated call erases what
 * is left after a failure: the rows by which the conversations are found go last.
 */
export async function eraseBuyer({ bus, store, key }: ErasureDeps, address: string): Promise<Erased> {
  const rows = await store.read(threadsOf, address, address, address);
  const threads = [...new Set(rows.map(({ thread_id }) => thread_id as string))];
  for (const thread of threads) {
    const at = threadAddress(store.tenantId, thread.slice(store.tenantId.length + 1));
    await bus.ask(at, "abort", { reason: "client" }, { deadlineMs: abortMs });
    await bus.ask(at, "erase", {}, { deadlineMs: eraseMs });
  }
  // The conversations are over, so no later row has their words.
  if (rows.length > 0) await flushAudit(bus);
  const since = Math.min(...rows.map(({ ts }) => ts as number));
  const audit_rows = rows.length === 0 ? 0 : await eraseAudit(store, since, personal(address, threads));
  const subject = `erased:${createHmac("sha256", key).update(address).digest("hex").slice(0, 32)}`;
  const [orders = []] = await store.write([
    store.op(ofOrders, [address, address]),
    store.op(ofAttribution, [address]),
    store.op(ofBuyers, [address]),
    store.op(ofAcp, [JSON.stringify(address).replace(/[!%_]/g, "!$&")]),
    ...threads.map((thread) => store.op(ofConsents, [subject, thread])),
    store.op(ofSessions, [address]),
  ]);
  return { orders: orders.length, threads: threads.length, audit_rows };
}

/** Returns a test for audit rows with the address, or with words of one of the conversations. */
function personal(address: string, threads: readonly string[]): (row: AuditedRow) => boolean {
  const marks = threads.map((thread) => `"thread_id":${JSON.stringify(thread)}`);
  return ({ event_type, payload }) =>
    hasAddress(payload.toLowerCase(), address) ||
    (!factTypes.has(event_type) && marks.some((mark) => payload.includes(mark)));
}

/** True if the text has the address itself: not as a part of a longer one. */
function hasAddress(text: string, address: string): boolean {
  for (let at = text.indexOf(address); at >= 0; at = text.indexOf(address, at + 1)) {
    const [before = "", after = ""] = [text.slice(Math.max(0, at - 1), at), text.slice(at + address.length)];
    if (!/[\w.+-]/.test(before) && !/^(?:[\w-]|\.\w)/.test(after.slice(0, 2))) return true;
  }
  return false;
}

/** Removes the addresses of all tenants from rows before a time. */
export async function eraseBefore(system: Scope, before: number): Promise<void> {
  await system.write([
    system.op(oldOrders, [before]),
    system.op(oldAttribution, [before]),
    system.op(oldSessions, [before, before]),
  ]);
}
