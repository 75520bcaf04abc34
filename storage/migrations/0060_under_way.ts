import type { Migration } from "../store/migration.ts";

/** Claims that wait for their answer are found by who has made them; nearly all keys are answered. */
export const migration: Migration = {
  revision: "0060",
  name: "under_way",
  up: ["CREATE INDEX idempotency_claimed ON idempotency (owner) WHERE state = 'in_progress'"],
  down: ["DROP INDEX idempotency_claimed"],
};
