import type { Step } from "../../store/migration.ts";

/** Questions of runs to people and programs, and requests for approval. */
export const waitTables: readonly Step[] = [
  // Not clustered by its key: SQLite would then walk a tenant's waits instead of using the indexes below.
  `CREATE TABLE waits (
    tenant_id TEXT NOT NULL,
    wait_id TEXT NOT NULL,
    thread_key BIGINT NOT NULL,
    suffix TEXT NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    may_answer TEXT NOT NULL,
    call TEXT NOT NULL,
    opened_at BIGINT NOT NULL,
    deadline BIGINT,
    state TEXT NOT NULL,
    answer TEXT,
    approval_id TEXT,
    frame TEXT,
    asked_as TEXT,
    asked_on BIGINT NOT NULL DEFAULT -1,
    beside BIGINT NOT NULL DEFAULT 0,
    push TEXT,
    owner TEXT,
    format BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, wait_id)
  )`,
  "CREATE INDEX waits_of_run ON waits (tenant_id, run_id)",
  "CREATE INDEX waits_of_thread ON waits (tenant_id, thread_key)",
  "CREATE INDEX waits_due ON waits (deadline) WHERE state = 'open' AND deadline IS NOT NULL",
  // Finds answered waits of suspended runs without a walk over the open ones.
  "CREATE INDEX waits_to_take ON waits (wait_id) WHERE state IN ('answered', 'expired')",
  "CREATE INDEX waits_of_approval ON waits (tenant_id, approval_id) WHERE approval_id IS NOT NULL",
  // Clients answer by the id in the frame. asked_on is the thread that shows the question: of a task, its root thread.
  "CREATE INDEX waits_open ON waits (tenant_id, asked_on, asked_as) WHERE state = 'open'",
  "CREATE INDEX waits_oldest ON waits (opened_at) WHERE state = 'open'",
  // Consumers of queues answer by the id of the call, in every state.
  "CREATE INDEX waits_queued ON waits (tenant_id, asked_as) WHERE kind = 'queue'",
  "CREATE INDEX waits_to_push ON waits (opened_at, wait_id) WHERE push IS NOT NULL",
  "CREATE INDEX waits_of_tasks ON waits (tenant_id, thread_key) WHERE state = 'open' AND asked_on <> thread_key",
  "CREATE INDEX waits_of_ends ON waits (tenant_id, asked_on, asked_as) WHERE state = 'answered' AND kind = 'task_result'",
  // A wait of a run without a thread names the owner of the run; see storage/tables/abandoned-waits.ts.
  "CREATE INDEX waits_threadless ON waits (wait_id) WHERE thread_key < 0",
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
  // A call has at most one pending request, also when several runs make it.
  `CREATE UNIQUE INDEX approvals_pending ON approvals (tenant_id, manifest_id, tool_name, call_signature)
    WHERE status = 'pending'`,
  `CREATE INDEX approvals_granted ON approvals (tenant_id, manifest_id, tool_name, call_signature, decided_at)
    WHERE status = 'approved'`,
  "CREATE INDEX approvals_by_time ON approvals (tenant_id, ts, id)",
  "CREATE INDEX approvals_by_status ON approvals (tenant_id, status, ts, id)",
  "CREATE INDEX approvals_by_thread ON approvals (tenant_id, thread_id, ts, id)",
];

export const dropWaitTables: readonly Step[] = ["DROP TABLE approvals", "DROP TABLE waits"];
