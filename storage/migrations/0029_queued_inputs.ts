import type { Migration } from "../store/migration.ts";

/** Messages to a thread that wait for its run; see storage/tables/queued-inputs.ts. */
export const migration: Migration = {
  revision: "0029",
  name: "queued_inputs",
  up: [
    `CREATE TABLE queued_inputs (
      tenant_id TEXT NOT NULL,
      thread_key BIGINT NOT NULL,
      number BIGINT NOT NULL,
      kind TEXT NOT NULL,
      subject TEXT NOT NULL,
      content TEXT NOT NULL,
      sender TEXT NOT NULL,
      detail TEXT,
      PRIMARY KEY (tenant_id, thread_key, number)
    )`,
    // Number of queued messages, so that loading a thread without any does not query the table.
    "ALTER TABLE threads ADD COLUMN queued BIGINT NOT NULL DEFAULT 0",
  ],
  down: ["ALTER TABLE threads DROP COLUMN queued", "DROP TABLE queued_inputs"],
};
