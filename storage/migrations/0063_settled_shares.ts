import type { Migration } from "../store/migration.ts";

/** A run's usage of a shared budget counts once, even if it is reported again; see storage/tables/run-budgets.ts. */
export const migration: Migration = {
  revision: "0063",
  name: "settled_shares",
  up: ["ALTER TABLE budget_shares ADD COLUMN settled BIGINT NOT NULL DEFAULT 0"],
  down: ["ALTER TABLE budget_shares DROP COLUMN settled"],
};
