import type { Migration } from "../../../storage/store/migration.ts";

/** Billing providers of tenants, invoices that wait for their provider, and applied events of providers. */
export const billingMigration: Migration = {
  revision: "0012",
  name: "commerce_billing",
  up: [
    `CREATE TABLE commerce_billing_settings (
      tenant_id TEXT NOT NULL PRIMARY KEY,
      provider TEXT NOT NULL,
      config TEXT NOT NULL,
      updated_at BIGINT NOT NULL
    )`,
    `CREATE TABLE commerce_billing_tasks (
      tenant_id TEXT NOT NULL,
      invoice_id TEXT NOT NULL,
      provider TEXT NOT NULL,
      attempts BIGINT NOT NULL,
      due_at BIGINT NOT NULL,
      claim BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, invoice_id)
    )`,
    "CREATE INDEX commerce_billing_tasks_due ON commerce_billing_tasks (due_at)",
    `CREATE TABLE commerce_billing_events (
      tenant_id TEXT NOT NULL,
      event_id TEXT NOT NULL,
      received_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, event_id)
    )`,
    "CREATE INDEX commerce_billing_events_old ON commerce_billing_events (received_at)",
  ],
  down: [
    "DROP TABLE commerce_billing_events",
    "DROP TABLE commerce_billing_tasks",
    "DROP TABLE commerce_billing_settings",
  ],
};
