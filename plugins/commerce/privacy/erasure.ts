import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Scope, TenantStore } from "../../../storage/store/store.ts";

// Removes what identifies shoppers. Orders and attribution keep their amounts.

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
  "UPDATE commerce_sessions SET buyer_subject = NULL WHERE tenant_id = :tenant AND buyer_subject = ?",
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

/** Removes an address from the orders, attribution and threads of a tenant; returns the number of orders that had it. */
export async function eraseBuyer(store: TenantStore, subject: string): Promise<number> {
  const [orders = []] = await store.write([
    store.op(ofOrders, [subject, subject]),
    store.op(ofAttribution, [subject]),
    store.op(ofSessions, [subject]),
  ]);
  return orders.length;
}

/** Removes the addresses of all tenants from rows before a time. */
export async function eraseBefore(system: Scope, before: number): Promise<void> {
  await system.write([
    system.op(oldOrders, [before]),
    system.op(oldAttribution, [before]),
    system.op(oldSessions, [before, before]),
  ]);
}
