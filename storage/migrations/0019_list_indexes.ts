import type { Migration } from "../store/migration.ts";

/** Each filter of the lists of audit and usage rows has an index, so that a page of one is found and not walked to. */
export const migration: Migration = {
  revision: "0019",
  name: "list_indexes",
  up: [
    "DROP INDEX audit_by_type",
    "CREATE INDEX audit_by_event_type ON audit (tenant_id, event_type, ts, id)",
    "CREATE INDEX audit_by_manifest ON audit (tenant_id, manifest_id, ts, id)",
    "CREATE INDEX audit_by_status ON audit (tenant_id, status, ts, id)",
    "CREATE INDEX usage_by_manifest ON usage (tenant_id, manifest_id, ts, id)",
    "CREATE INDEX usage_by_thread ON usage (tenant_id, thread_id, ts, id)",
  ],
  down: [
    "DROP INDEX usage_by_thread",
    "DROP INDEX usage_by_manifest",
    "DROP INDEX audit_by_status",
    "DROP INDEX audit_by_manifest",
    "DROP INDEX audit_by_event_type",
    `CREATE INDEX audit_by_type ON audit (tenant_id, event_type, ts, id)
      WHERE event_type <> 'user_input' AND event_type <> 'final_response'`,
  ],
};
