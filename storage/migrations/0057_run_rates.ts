import type { Migration } from "../store/migration.ts";

/**
 * The stored manifest version of a run, and the usual failure rate of a manifest's runs; see
 * storage/tables/run-rates.ts.
 */
export const migration: Migration = {
  revision: "0057",
  name: "run_rates",
  up: [
    "ALTER TABLE runs ADD COLUMN manifest_version BIGINT",
    `CREATE TABLE run_rates (
      tenant_id TEXT NOT NULL,
      manifest TEXT NOT NULL,
      runs {{float}} NOT NULL,
      failures {{float}} NOT NULL,
      seen_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, manifest)
    ) {{clustered}}`,
    "CREATE INDEX run_rates_seen ON run_rates (seen_at)",
  ],
  down: ["DROP TABLE run_rates", "ALTER TABLE runs DROP COLUMN manifest_version"],
};
