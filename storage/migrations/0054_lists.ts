import type { Migration } from "../store/migration.ts";

/** Lists of a tenant under keys; see storage/tables/key-value.ts. */
export const migration: Migration = {
  revision: "0054",
  name: "lists",
  up: [
    `CREATE TABLE kv_lists (
      tenant_id TEXT NOT NULL,
      key TEXT NOT NULL,
      place BIGINT NOT NULL,
      value TEXT NOT NULL,
      PRIMARY KEY (tenant_id, key, place)
    ) {{clustered}}`,
  ],
  down: ["DROP TABLE kv_lists"],
};
