import type { Migration } from "../store/migration.ts";

/** Index of open waits by age, for the metric that operators watch. */
export const migration: Migration = {
  revision: "0051",
  name: "oldest_waits",
  up: ["CREATE INDEX waits_oldest ON waits (opened_at) WHERE state = 'open'"],
  down: ["DROP INDEX waits_oldest"],
};
