import type { Migration } from "../store/migration.ts";

/** Indexes for pages of audit rows by status, and of usage rows by manifest or thread. */
export const migration: Migration = {
  revision: "0019",
  name: "list_indexes",
  up: [
    // Nearly every row has the status ok, and an index entry for it would slow down every turn.
    "CREATE INDEX audit_by_status ON audit (tenant_id, status, ts, id) WHERE status <> 'ok'",
    "CREATE INDEX usage_by_manifest ON usage (tenant_id, manifest_id, ts, id)",
    "CREATE INDEX usage_by_thread ON usage (tenant_id, thread_id, ts, id)",
  ],
  down: ["DROP INDEX usage_by_thread", "DROP INDEX usage_by_manifest", "DROP INDEX audit_by_status"],
};
