import type { Migration } from "../store/migration.ts";

/**
 * Rows for approval requests; see storage/tables/approvals.ts. A wait may refer to one, and stores the frame that
 * clients receive.
 */
export const migration: Migration = {
  revision: "0027",
  name: "approvals",
  up: [
    // The first release never wrote to its approvals table.
    "DROP TABLE approvals",
    `CREATE TABLE approvals (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      manifest_id TEXT NOT NULL,
      tool_name TEXT NOT NULL,
      call_signature TEXT NOT NULL,
      args TEXT NOT NULL,
      parameters TEXT NOT NULL,
      evidence TEXT NOT NULL,
      rule_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      tool_call_id TEXT NOT NULL,
      principal_subj TEXT NOT NULL,
      bound_to TEXT NOT NULL,
      not_by TEXT NOT NULL,
      one_shot BIGINT NOT NULL,
      ttl_seconds {{float}},
      deadline BIGINT NOT NULL,
      status TEXT NOT NULL,
      decision TEXT,
      decided_at BIGINT,
      claimed_by TEXT,
      consumed_at BIGINT,
      PRIMARY KEY (tenant_id, id)
    )`,
    // At most one pending request for a call, independent of the caller.
    `CREATE UNIQUE INDEX approvals_pending ON approvals (tenant_id, manifest_id, tool_name, call_signature)
      WHERE status = 'pending'`,
    "CREATE INDEX approvals_granted ON approvals (tenant_id, manifest_id, tool_name, call_signature, decided_at) WHERE status = 'approved'",
    "CREATE INDEX approvals_by_time ON approvals (tenant_id, ts, id)",
    "CREATE INDEX approvals_by_status ON approvals (tenant_id, status, ts, id)",
    "CREATE INDEX approvals_by_thread ON approvals (tenant_id, thread_id, ts, id)",
    "ALTER TABLE waits ADD COLUMN approval_id TEXT",
    "ALTER TABLE waits ADD COLUMN frame TEXT",
    "CREATE INDEX waits_of_approval ON waits (tenant_id, approval_id) WHERE approval_id IS NOT NULL",
  ],
  down: [
    "DROP INDEX waits_of_approval",
    "ALTER TABLE waits DROP COLUMN frame",
    "ALTER TABLE waits DROP COLUMN approval_id",
    "DROP TABLE approvals",
    `CREATE TABLE approvals (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      manifest_id TEXT NOT NULL,
      tool_name TEXT NOT NULL,
      call_signature TEXT NOT NULL,
      args TEXT NOT NULL,
      principal_subj TEXT NOT NULL,
      consumed_at BIGINT,
      status TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      decided_at BIGINT,
      decided_by TEXT NOT NULL,
      decision_note TEXT NOT NULL,
      edited_args TEXT,
      ttl_seconds BIGINT,
      expires_at BIGINT,
      rule_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      thread_id TEXT NOT NULL,
      tool_call_id TEXT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX approvals_recent ON approvals (tenant_id, status, created_at, id)",
  ],
};
