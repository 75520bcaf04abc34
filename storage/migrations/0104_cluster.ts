import type { Migration } from "../store/migration.ts";

/**
 * What the hosts of a deployment know of each other. The row of `cluster` numbers the changes of the list of hosts, and
 * says which of them starts the periodic tasks.
 */
export const migration: Migration = {
  revision: "0104",
  name: "cluster",
  up: [
    "ALTER TABLE hosts ADD COLUMN mode TEXT NOT NULL DEFAULT 'alone'",
    "ALTER TABLE hosts ADD COLUMN leaving BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE hosts ADD COLUMN card TEXT NOT NULL DEFAULT '{}'",
    `CREATE TABLE cluster (
      id BIGINT PRIMARY KEY,
      view_number BIGINT NOT NULL,
      scheduler TEXT NOT NULL,
      scheduler_epoch BIGINT NOT NULL,
      deployment_id TEXT NOT NULL
    ) {{clustered}}`,
    "INSERT INTO cluster (id, view_number, scheduler, scheduler_epoch, deployment_id) VALUES (1, 0, '', 0, '')",
  ],
  down: [
    "DROP TABLE cluster",
    "ALTER TABLE hosts DROP COLUMN card",
    "ALTER TABLE hosts DROP COLUMN leaving",
    "ALTER TABLE hosts DROP COLUMN mode",
  ],
};
