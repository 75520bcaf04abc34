import { list } from "../store/list.ts";
import { type Param, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, oneOf, type RowIn, real, selectOne, table, text } from "../store/table.ts";
import { answerWaitsOfApprovalOp, closeWaitOp, isSuperseded, type WaitAnswer, type WaitRow } from "./waits.ts";

// An approval request is a row of its own, because it outlives the call that asked for it. Equal calls share it while
// it is pending. After approval it allows equal calls for some time. Each waiting call is a row of `waits`, which the
// deciding batch answers. Times are those of the store's clock.

/** The decision on a request. */
export interface Decision {
  readonly decision: "approved" | "denied";
  /** The decider's comment; `timeout` and `aborted` come from the server. */
  readonly note: string;
  /** Arguments that replace those of the call. */
  readonly edited_args: Readonly<Record<string, unknown>> | null;
  /** Outcome of a call whose result the server does not know; absent unless the decider gives it. */
  readonly result?: string;
}

/** Facts by which a decider can judge a call. */
export interface Evidence {
  readonly effect: string;
  readonly risk: string;
  /** The run's cost at the time of the request. */
  readonly cost_usd: number;
  readonly tool_calls: number;
  /** Set if the call may have run already, and the decider is asked for its outcome. */
  readonly outcome?: "unknown";
  /** The untrusted texts that the agent has read, if the rule asks because of them. */
  readonly tainted?: readonly { readonly source: string; readonly event_id: string; readonly text: string }[];
}

const approvalTable = table("approvals", {
  id: text,
  /** Time of the request. */
  ts: integer,
  manifest_id: text,
  tool_name: text,
  /**
   * SHA-256 over the arguments and over the requirements of the rule, so that a stricter rule does not accept a grant
   * of a looser one.
   */
  call_signature: text,
  /** JSON of the arguments, with `preview` if there is one. */
  args: text,
  /** JSON Schema of the tool's arguments, to validate edited ones. */
  parameters: text,
  evidence: json<Evidence>(),
  rule_id: text,
  reason: text,
  /** Thread and call that asked first; empty without a thread. */
  thread_id: text,
  tool_call_id: text,
  principal_subj: text,
  /** The only principal whose calls the grant allows; empty for all. */
  bound_to: text,
  /** The principal that may not decide, because it made the request; empty for none. */
  not_by: text,
  one_shot: integer,
  ttl_seconds: nullable(real),
  /** Time after which no decision is accepted. A grant lasts equally long after its decision. */
  deadline: integer,
  status: oneOf("pending", "approved", "denied", "expired"),
  decision: nullable(json<WaitAnswer>()),
  decided_at: nullable(integer),
  /** The call that uses a one-shot grant. */
  claimed_by: nullable(text),
  consumed_at: nullable(integer),
});

/** A stored approval request. */
export type ApprovalRow = RowIn<typeof approvalTable>;

/** The columns that equal calls share. */
export type ApprovalKey = Pick<ApprovalRow, "manifest_id" | "tool_name" | "call_signature">;

/** A new request; the store sets its time and deadline. */
export type NewApproval = Omit<
  ApprovalRow,
  "ts" | "deadline" | "status" | "decision" | "decided_at" | "claimed_by" | "consumed_at"
> & { readonly lastsMs: number };

const { columns } = approvalTable;
const ofCall = "tenant_id = :tenant AND manifest_id = ? AND tool_name = ? AND call_signature = ?";

const insertApproval = tenantSql(
  "approval_insert",
  `INSERT INTO approvals (tenant_id, ${columns})
   VALUES (:tenant, ?, :now, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now + ?, 'pending', NULL, NULL, NULL, NULL)
   ON CONFLICT (tenant_id, manifest_id, tool_name, call_signature) WHERE status = 'pending'
     DO UPDATE SET status = approvals.status`,
);
const insertUntil = tenantSql(
  "approval_insert_until",
  `INSERT INTO approvals (tenant_id, ${columns})
   VALUES (:tenant, ?, :now, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', NULL, NULL, NULL, NULL)`,
);
const selectPending = tenantSql(
  "approval_pending",
  `SELECT ${columns} FROM approvals WHERE ${ofCall} AND status = 'pending'`,
);
const selectGrant = tenantSql(
  "approval_grant",
  `SELECT ${columns} FROM approvals
   WHERE ${ofCall} AND status = 'approved' AND decided_at + (deadline - ts) > :now AND bound_to IN ('', ?)
     AND (one_shot = 0 OR claimed_by IS NULL)
   ORDER BY decided_at DESC LIMIT 1`,
);
const lapseOfCall = tenantSql(
  "approval_lapse",
  `UPDATE approvals SET status = 'expired', decision = ?, decided_at = :now
   WHERE ${ofCall} AND status = 'pending' AND deadline <= :now`,
);
const lapseAll = tenantSql(
  "approvals_lapse",
  `UPDATE approvals SET status = 'expired', decision = ?, decided_at = :now
   WHERE tenant_id = :tenant AND status = 'pending' AND deadline <= :now`,
);
const decideApproval = tenantSql(
  "approval_decide",
  `UPDATE approvals SET status = ?, decision = ?, decided_at = :now
   WHERE tenant_id = :tenant AND id = ? AND status = 'pending' AND deadline > :now`,
);
/** Locks the request, so that joining, leaving and deciding wait for each other. */
const lockApproval = tenantSql(
  "approval_lock",
  "UPDATE approvals SET status = status WHERE tenant_id = :tenant AND id = ?",
);
const leaveApproval = tenantSql(
  "approval_leave",
  `UPDATE approvals SET status = ?, decision = ?, decided_at = :now
   WHERE tenant_id = :tenant AND id = ? AND status = 'pending'
     AND NOT EXISTS (SELECT 1 FROM waits w WHERE w.tenant_id = :tenant AND w.approval_id = ? AND w.state = 'open')`,
);
const joinApproval = tenantSql(
  "approval_join",
  `UPDATE waits SET state = 'answered',
     answer = (SELECT a.decision FROM approvals a WHERE a.tenant_id = :tenant AND a.id = ?)
   WHERE tenant_id = :tenant AND wait_id = ? AND state = 'open' AND EXISTS
     (SELECT 1 FROM approvals a WHERE a.tenant_id = :tenant AND a.id = ? AND a.status IN ('approved', 'denied'))`,
);
/**
 * Links the wait to the pending request, whichever call made it. If the request belongs to another principal, the wait
 * is answered with a denial.
 */
const adoptPending = tenantSql(
  "approval_adopt",
  `UPDATE waits SET approval_id = a.id,
     deadline = CASE WHEN waits.deadline < a.deadline THEN waits.deadline ELSE a.deadline END,
     frame = CASE WHEN a.bound_to = ? THEN REPLACE(REPLACE(waits.frame, ?, CAST(a.deadline AS TEXT)), ?, a.id) END,
     state = CASE WHEN a.bound_to = ? THEN 'open' ELSE 'answered' END,
     answer = CASE WHEN a.bound_to = ? THEN NULL ELSE ? END
   FROM approvals a
   WHERE waits.tenant_id = :tenant AND waits.wait_id = ? AND a.tenant_id = :tenant AND a.manifest_id = ? AND a.tool_name = ?
     AND a.call_signature = ? AND a.status = 'pending'`,
);
const claimGrant = tenantSql(
  "approval_claim",
  `UPDATE approvals SET claimed_by = ?
   WHERE tenant_id = :tenant AND id = ? AND status = 'approved' AND (claimed_by IS NULL OR claimed_by = ?)`,
);
const consumeGrant = tenantSql(
  "approval_consume",
  "UPDATE approvals SET consumed_at = :now WHERE tenant_id = :tenant AND id = ? AND one_shot = 1",
);
const deleteOfThread = tenantSql(
  "approvals_delete",
  `DELETE FROM approvals WHERE tenant_id = :tenant AND thread_id = ? AND NOT EXISTS
     (SELECT 1 FROM waits w WHERE w.tenant_id = :tenant AND w.approval_id = approvals.id AND w.thread_key <> ?
       AND w.state = 'open')`,
);

/** Denial text of a call whose pending request belongs to another principal. */
export const pendingForAnother = "pending for another principal";

/** The decider's name in decisions of the server itself. */
const server = "svc";
const timeout = answerText({ decision: "denied", note: "timeout", edited_args: null }, server);
const aborted = answerText({ decision: "denied", note: "aborted", edited_args: null }, server);
const ofAnother = answerText({ decision: "denied", note: pendingForAnother, edited_args: null }, server);
const superseded = answerText({ decision: "denied", note: "superseded", edited_args: null }, server);

/** Max bytes of arguments on a page of requests; the first request may exceed it. */
const pageBytesMax = 4 * 1024 * 1024;
/** Returns one page, newest first; shorter if the requests are long. Refuses with invalid_cursor. */
export const approvalPage = list(approvalTable, ["status", "thread_id"], {
  indexes: { thread_id: "approvals_by_thread", status: "approvals_by_status" },
  long: { columns: ["args", "parameters", "decision"], bytesMax: pageBytesMax },
}).page;
/** Returns a request of a tenant by its id. */
export const approvalById = selectOne(approvalTable, ["id"]);

/** Returns the pending request for equal calls, if any. */
export async function pendingApproval(store: TenantStore, key: ApprovalKey): Promise<ApprovalRow | undefined> {
  const [row] = await store.read(selectPending, ...paramsOf(key));
  return row && approvalTable.decode(row);
}

/** Returns the newest grant that allows a call of this principal. */
export async function liveGrant(
  store: TenantStore,
  key: ApprovalKey,
  principal: string,
): Promise<ApprovalRow | undefined> {
  const [row] = await store.read(selectGrant, ...paramsOf(key), principal);
  return row && approvalTable.decode(row);
}

/**
 * Returns operations that insert the request, unless an equal one is pending. They first expire an overdue one. The row
 * lock delays decisions until the batch commits.
 */
export function requestOps(store: TenantStore, { lastsMs, ...row }: NewApproval): WriteOp[] {
  return [
    store.op(lapseOfCall, [timeout, ...paramsOf(row)]),
    store.op(insertApproval, [...askedParams(row), Math.ceil(lastsMs)]),
  ];
}

/**
 * Returns operations around `open`, which opens a wait: they insert the request in the same batch, or link the wait to
 * an equal pending request. The wait's frame then gets the id and the deadline of the request.
 */
export function askOps(store: TenantStore, request: NewApproval, waitId: string, open: WriteOp): WriteOp[] {
  const { id, bound_to } = request;
  const frame = [bound_to, JSON.stringify(deadlineMark(id)), id];
  const adopted = [...frame, bound_to, bound_to, ofAnother, waitId, ...paramsOf(request)];
  return [...requestOps(store, request), open, store.op(adoptPending, adopted)];
}

/** Returns the placeholder of a request's deadline in a frame; the store replaces it on insert. */
export function deadlineMark(id: string): string {
  return `${id}.deadline`;
}

/** Inserts a request that no other call shares. `deadline` is epoch milliseconds. */
export function askApprovalOp(
  store: TenantStore,
  { deadline, ...row }: Omit<NewApproval, "lastsMs"> & Pick<ApprovalRow, "deadline">,
): WriteOp {
  return store.op(insertUntil, [...askedParams(row), deadline]);
}

function askedParams(row: Omit<NewApproval, "lastsMs">): Param[] {
  const { id, manifest_id, tool_name, call_signature, args, parameters, rule_id, reason, thread_id } = row;
  const params = [id, manifest_id, tool_name, call_signature, args, parameters, JSON.stringify(row.evidence), rule_id];
  const { tool_call_id, principal_subj, bound_to, not_by, one_shot, ttl_seconds } = row;
  return [...params, reason, thread_id, tool_call_id, principal_subj, bound_to, not_by, one_shot, ttl_seconds];
}

/** Marks all overdue requests of the tenant as expired. */
export async function lapseApprovals(store: TenantStore): Promise<void> {
  await store.write([store.op(lapseAll, [timeout])]);
}

/**
 * Returns operations that decide a request and answer every waiting call. Refuses with conflict if the request is
 * decided, expired or unknown.
 */
export function decideOps(store: TenantStore, id: string, decision: Decision, by: string): WriteOp[] {
  const answer = answerText(decision, by);
  return [store.op(decideApproval, [decision.decision, answer, id], 1), answerWaitsOfApprovalOp(store, id, answer)];
}

/**
 * Returns operations around `open`, which opens a wait: if the request is decided already, the wait is answered at
 * once.
 */
export function joinOps(store: TenantStore, id: string, waitId: string, open: WriteOp): WriteOp[] {
  return [store.op(lockApproval, [id]), open, store.op(joinApproval, [id, waitId, id])];
}

/** Reason for ending a wait: its time was over, its run was stopped, or the user sent another message. */
export type WhyLeft = "timeout" | "aborted" | "superseded";

/**
 * Returns operations around `close`, which ends a wait without a decision: they close the request too, unless another
 * call waits for it.
 */
export function leaveOps(store: TenantStore, id: string, why: WhyLeft, close: WriteOp): WriteOp[] {
  const closed = why === "timeout" ? ["expired", timeout] : ["denied", why === "aborted" ? aborted : superseded];
  return [store.op(lockApproval, [id]), close, store.op(leaveApproval, [...closed, id, id])];
}

/** Returns operations that close a request which no call waits for, such as that of a cancelled step of a workflow. */
export function closeApprovalOps(store: TenantStore, id: string): WriteOp[] {
  return [store.op(lockApproval, [id]), store.op(leaveApproval, ["denied", aborted, id, id])];
}

/** Does the same for all waits of a run that does not continue. Refuses with conflict if one of them is closed. */
export function abandonOps(store: TenantStore, waits: readonly WaitRow[]): WriteOp[] {
  return waits.flatMap((wait) =>
    wait.approval_id === null
      ? []
      : leaveOps(store, wait.approval_id, whyAbandoned(wait), closeWaitOp(store, wait.wait_id)),
  );
}

/** Returns why a wait ended that its run has not processed. */
function whyAbandoned(wait: WaitRow): WhyLeft {
  if (wait.state !== "expired") return "aborted";
  return isSuperseded(wait) ? "superseded" : "timeout";
}

/** Assigns a one-shot grant to a call. Refuses with conflict if another call has it. */
export function claimGrantOp(store: TenantStore, id: string, call: string): WriteOp {
  return store.op(claimGrant, [call, id, call], 1);
}

/** Marks a one-shot grant as used, before its call runs. */
export function consumeGrantOp(store: TenantStore, id: string): WriteOp {
  return store.op(consumeGrant, [id]);
}

/** Deletes a thread's requests, except those that a call of another thread waits for. */
export function deleteApprovalsOp(store: TenantStore, threadId: string, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadId, threadKey]);
}

/** Returns the decision on a request; null if there is none. */
export function decisionOf({ decision }: Pick<ApprovalRow, "decision">): Decision | null {
  return decision === null ? null : (decision.value as Decision);
}

function paramsOf({ manifest_id, tool_name, call_signature }: ApprovalKey): Param[] {
  return [manifest_id, tool_name, call_signature];
}

function answerText(value: Decision, by: string): string {
  return JSON.stringify({ value, by } satisfies WaitAnswer);
}
