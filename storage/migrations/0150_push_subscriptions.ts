import type { Migration } from "../store/migration.ts";

/** The browsers that get push notifications. */
export const migration: Migration = {
  revision: "0150",
  name: "push_subscriptions",
  up: [
    `CREATE TABLE push_subscriptions (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      endpoint TEXT NOT NULL,
      p256dh TEXT NOT NULL,
      auth TEXT NOT NULL,
      principal TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      seen_at BIGINT NOT NULL,
      last_ok_at BIGINT,
      failures BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    ) {{clustered}}`,
  ],
  down: ["DROP TABLE push_subscriptions"],
};
