import type { Migration } from "../store/migration.ts";

/**
 * Labels and ratings of events, and logs without a thread of a client; see storage/tables/event-marks.ts and
 * unowned-logs.ts.
 */
export const migration: Migration = {
  revision: "0025",
  name: "session_tree",
  up: [
    // Keyed like the events that they mark, so that those of one thread are adjacent.
    "CREATE TABLE labels (tenant_id TEXT NOT NULL, event_key {{key}}, label TEXT NOT NULL)",
    `CREATE TABLE feedback (
      tenant_id TEXT NOT NULL,
      event_key {{key}},
      rating TEXT NOT NULL,
      note TEXT NOT NULL,
      at BIGINT NOT NULL
    )`,
    `CREATE TABLE unowned_logs (
      tenant_id TEXT NOT NULL,
      thread_key {{key}},
      events BIGINT NOT NULL,
      runs BIGINT NOT NULL,
      touched_at BIGINT NOT NULL
    )`,
  ],
  down: ["DROP TABLE unowned_logs", "DROP TABLE feedback", "DROP TABLE labels"],
};
