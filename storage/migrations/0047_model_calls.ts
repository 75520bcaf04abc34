import type { Migration } from "../store/migration.ts";

/** Context records of model calls; see storage/tables/model-calls.ts and storage/tables/model-frames.ts. */
export const migration: Migration = {
  revision: "0047",
  name: "model_calls",
  up: [
    `CREATE TABLE model_calls (
      tenant_id TEXT NOT NULL,
      run_id TEXT NOT NULL,
      n BIGINT NOT NULL,
      thread_key BIGINT,
      frame TEXT NOT NULL,
      started_at BIGINT NOT NULL,
      facts TEXT NOT NULL,
      bodies TEXT,
      format BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, run_id, n)
    )`,
    "CREATE INDEX model_calls_of_frame ON model_calls (tenant_id, frame)",
    `CREATE TABLE model_frames (
      tenant_id TEXT NOT NULL,
      digest TEXT NOT NULL,
      body TEXT NOT NULL,
      touched_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, digest)
    )`,
    "CREATE INDEX model_frames_touched ON model_frames (touched_at)",
  ],
  down: ["DROP TABLE model_frames", "DROP TABLE model_calls"],
};
