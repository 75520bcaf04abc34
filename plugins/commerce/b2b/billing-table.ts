import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertInto, integer, json, type RowIn, table, text } from "../../../storage/store/table.ts";

// The billing provider of each tenant, the invoices that wait for their provider, and the applied events.

/** The configuration of a provider. Values are `secret:NAME`, never a secret itself. */
export type BillingConfig = Readonly<Record<string, string>>;

/** The settings. */
export const billingSettingsTable = table(
  "commerce_billing_settings",
  { provider: text, config: json<BillingConfig>(), updated_at: integer },
  ({ text: value }) => ({ provider: "internal", config: { value }, updated_at: 5 }),
);

/** The invoices to tell. */
export const billingTaskTable = table(
  "commerce_billing_tasks",
  { invoice_id: text, provider: text, attempts: integer, due_at: integer, claim: integer },
  () => ({ invoice_id: "row", provider: "stripe", attempts: 5, due_at: 5, claim: 5 }),
);

/** The applied events. */
export const billingEventTable = table("commerce_billing_events", { event_id: text, received_at: integer }, () => ({
  event_id: "row",
  received_at: 5,
}));

/** A stored task. */
export type BillingTaskRow = RowIn<typeof billingTaskTable>;

const selectSettings = tenantSql(
  "commerce_billing_settings_of",
  `SELECT ${billingSettingsTable.columns} FROM commerce_billing_settings WHERE tenant_id = :tenant`,
);
const selectDue = systemSql(
  "commerce_billing_tasks_due",
  `SELECT tenant_id, ${billingTaskTable.columns} FROM commerce_billing_tasks WHERE due_at <= ? ORDER BY due_at LIMIT ?`,
);
const claimTask = tenantSql(
  "commerce_billing_task_claim",
  `UPDATE commerce_billing_tasks SET claim = claim + 1, attempts = attempts + 1, due_at = ?
   WHERE tenant_id = :tenant AND invoice_id = ? AND claim = ?`,
);
const endTask = tenantSql(
  "commerce_billing_task_end",
  "DELETE FROM commerce_billing_tasks WHERE tenant_id = :tenant AND invoice_id = ?",
);
const deleteOldEvents = systemSql(
  "commerce_billing_events_delete",
  "DELETE FROM commerce_billing_events WHERE received_at < ?",
);
const insertTask = insertInto(billingTaskTable);

/** Returns the settings of a tenant; undefined for the default. */
export async function billingSettingsOf(store: TenantStore): Promise<RowIn<typeof billingSettingsTable> | undefined> {
  const [row] = await store.read(selectSettings);
  return row && billingSettingsTable.decode(row);
}

/** Returns the operation that stores the settings of a tenant. */
export const putBillingSettingsOp = ((): ((store: TenantStore, row: RowIn<typeof billingSettingsTable>) => WriteOp) => {
  const statement = tenantSql(
    "commerce_billing_settings_put",
    `INSERT INTO commerce_billing_settings (tenant_id, provider, config, updated_at) VALUES (:tenant, ?, ?, ?)
     ON CONFLICT (tenant_id) DO UPDATE SET provider = excluded.provider, config = excluded.config,
       updated_at = excluded.updated_at`,
  );
  return (store, row) => store.op(statement, billingSettingsTable.encode(row));
})();

/** Returns the operation that queues an invoice for its provider. */
export function tellOp(store: TenantStore, invoiceId: string, provider: string, now: number): WriteOp {
  return insertTask(store, { invoice_id: invoiceId, provider, attempts: 0, due_at: now, claim: 0 });
}

/** Returns the operation that takes a task. Its batch refuses with conflict if another process was first. */
export function claimTaskOp(store: TenantStore, { invoice_id, claim }: BillingTaskRow, dueAt: number): WriteOp {
  return store.op(claimTask, [dueAt, invoice_id, claim], 1);
}

/** Returns the operation that ends a task. */
export function endTaskOp(store: TenantStore, invoiceId: string): WriteOp {
  return store.op(endTask, [invoiceId]);
}

/** Returns tasks that are due, over all tenants. */
export async function dueTasks(
  store: Store,
  now: number,
  limit: number,
): Promise<{ readonly tenant_id: string; readonly task: BillingTaskRow }[]> {
  const rows = await store.system.read(selectDue, now, limit);
  return rows.map((row) => ({ tenant_id: row.tenant_id as string, task: billingTaskTable.decode(row) }));
}

/** Returns the operation that records an event. Its batch refuses with conflict if the event was applied before. */
export const insertEventOp: (store: TenantStore, row: RowIn<typeof billingEventTable>) => WriteOp =
  insertInto(billingEventTable);

/** Deletes records of events before a time; no provider repeats those. */
export async function deleteOldBillingEvents(store: Store, before: number): Promise<void> {
  await store.system.write([store.system.op(deleteOldEvents, [before])]);
}
