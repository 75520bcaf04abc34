import type { Migration } from "../store/migration.ts";

/** Pages of audit rows by a status, and of usage rows by a manifest or a thread, are found and not walked to. */
export const migration: Migration = {
  revision: "0019",
  name: "list_indexes",
  up: [
    // Nearly every row is ok, and each index costs every turn.
    "CREATE INDEX audit_by_status ON audit (tenant_id, status, ts, id) WHERE status <> 'ok'",
    "CREATE INDEX usage_by_manifest ON usage (tenant_id, manifest_id, ts, id)",
    "CREATE INDEX usage_by_thread ON usage (tenant_id, thread_id, ts, id)",
  ],
  down: ["DROP INDEX usage_by_thread", "DROP INDEX usage_by_manifest", "DROP INDEX audit_by_status"],
};
