import type { Migration } from "../store/migration.ts";

/**
 * Stores the used part of each caller's rate limit, so that it outlives the process; see
 * storage/tables/rate-buckets.ts.
 */
export const migration: Migration = {
  revision: "0024",
  name: "rate_buckets",
  up: [
    `CREATE TABLE rate_buckets (
      bucket TEXT PRIMARY KEY NOT NULL,
      state TEXT NOT NULL,
      mark TEXT NOT NULL,
      full_at BIGINT NOT NULL
    ) {{clustered}}`,
    "CREATE INDEX rate_buckets_full ON rate_buckets (full_at)",
  ],
  down: ["DROP TABLE rate_buckets"],
};
