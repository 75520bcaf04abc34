import type { Migration } from "../store/migration.ts";

/** The outbox: webhooks, written in the batch of the fact that they report; see storage/tables/deliveries.ts. */
export const migration: Migration = {
  revision: "0045",
  name: "deliveries",
  up: [
    `CREATE TABLE deliveries (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      endpoint_id TEXT NOT NULL,
      type TEXT NOT NULL,
      body TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      state TEXT NOT NULL,
      attempts BIGINT NOT NULL,
      due_at BIGINT NOT NULL,
      claim BIGINT NOT NULL,
      claimed_by TEXT,
      ended_at BIGINT,
      PRIMARY KEY (tenant_id, id)
    )`,
    // All indexes but the last cover pending rows only, which are few: a completed delivery costs one entry.
    "CREATE INDEX deliveries_due ON deliveries (tenant_id, endpoint_id, due_at) WHERE state = 'pending'",
    "CREATE INDEX deliveries_oldest ON deliveries (created_at) WHERE state = 'pending'",
    "CREATE INDEX deliveries_claimed ON deliveries (claimed_by) WHERE claimed_by IS NOT NULL",
    "CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE ended_at IS NOT NULL",
  ],
  down: ["DROP TABLE deliveries"],
};
