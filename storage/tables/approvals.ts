import { list } from "../store/list.ts";
import { type Param, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, json, nullable, oneOf, type RowIn, real, selectOne, table, text } from "../store/table.ts";
import { answerWaitsOfApprovalOp, closeWaitOp, isSuperseded, type WaitAnswer, type WaitRow } from "./waits.ts";

// A request for approval is a row of its own, for it outlives the call that has asked: equal calls share it while it is pending, and
// once it is approved it lets equal calls pass for a while. Each call that waits for it is a row of `waits`, which is answered in the
// batch that decides. Times are the store's.

/** What somebody has said to a request. */
export interface Decision {
  readonly decision: "approved" | "denied";
  /** The decider's own words; `timeout` and `aborted` are the server's. */
  readonly note: string;
  /** The arguments that the call is to have instead of its own. */
  readonly edited_args: Readonly<Record<string, unknown>> | null;
  /** What came of a call of which nobody else knows it; absent where the decider has not said so. */
  readonly result?: string;
}

/** What a decider can judge a call by. */
export interface Evidence {
  readonly effect: string;
  readonly risk: string;
  /** What the run had used when it asked. */
  readonly cost_usd: number;
  readonly tool_calls: number;
  /** The call may have run already, and its outcome is what is asked for. */
  readonly outcome?: "unknown";
}

const approvalTable = table("approvals", {
  id: text,
  /** When it was asked. */
  ts: integer,
  manifest_id: text,
  tool_name: text,
  /** SHA-256 of the arguments as the gate has seen them, and of what its rule asks for: a stricter rule takes no grant of a looser one. */
  call_signature: text,
  /** JSON of the arguments, with `preview` where there is one. */
  args: text,
  /** JSON Schema of the tool's arguments, for those that a decider puts in their place. */
  parameters: text,
  evidence: json<Evidence>(),
  rule_id: text,
  reason: text,
  /** The conversation and the call that asked first; empty without a conversation. */
  thread_id: text,
  tool_call_id: text,
  principal_subj: text,
  /** The one principal whose calls it is good for; empty for everybody's. */
  bound_to: text,
  /** The one principal who may not decide it, because it has asked; empty for none. */
  not_by: text,
  one_shot: integer,
  ttl_seconds: nullable(real),
  /** Nobody may decide after it. A grant lasts as long from its decision. */
  deadline: integer,
  status: oneOf("pending", "approved", "denied", "expired"),
  decision: nullable(json<WaitAnswer>()),
  decided_at: nullable(integer),
  /** The call that a grant for one call is for. */
  claimed_by: nullable(text),
  consumed_at: nullable(integer),
});

/** A request for approval as it is stored. */
export type ApprovalRow = RowIn<typeof approvalTable>;

/** Which calls are equal. */
export type ApprovalKey = Pick<ApprovalRow, "manifest_id" | "tool_name" | "call_signature">;

/** A request as it is made; the store says when, and until when. */
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
/** Whoever joins or leaves a request waits for who decides it, and the other way round. */
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
/** The wait is for the pending request, whoever has asked it. Where that is another principal's, the wait is answered. */
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

/** Why a call may not wait for a request that is another principal's. */
export const pendingForAnother = "pending for another principal";

/** Who says what nobody has said. */
const server = "svc";
const timeout = answerText({ decision: "denied", note: "timeout", edited_args: null }, server);
const aborted = answerText({ decision: "denied", note: "aborted", edited_args: null }, server);
const ofAnother = answerText({ decision: "denied", note: pendingForAnother, edited_args: null }, server);
const superseded = answerText({ decision: "denied", note: "superseded", edited_args: null }, server);

/** What a page of requests may have of arguments, but for its first. */
const pageBytesMax = 4 * 1024 * 1024;
/** One page, newest first; it is shorter where the requests are long. Refuses with invalid_cursor. */
export const approvalPage = list(approvalTable, ["status", "thread_id"], {
  indexes: { thread_id: "approvals_by_thread", status: "approvals_by_status" },
  long: { columns: ["args", "parameters", "decision"], bytesMax: pageBytesMax },
}).page;
/** A request of a tenant by its id. */
export const approvalById = selectOne(approvalTable, ["id"]);

/** The pending request for equal calls, if there is one. */
export async function pendingApproval(store: TenantStore, key: ApprovalKey): Promise<ApprovalRow | undefined> {
  const [row] = await store.read(selectPending, ...paramsOf(key));
  return row && approvalTable.decode(row);
}

/** What lets a call of this principal pass without being asked for again: the newest that does. */
export async function liveGrant(
  store: TenantStore,
  key: ApprovalKey,
  principal: string,
): Promise<ApprovalRow | undefined> {
  const [row] = await store.read(selectGrant, ...paramsOf(key), principal);
  return row && approvalTable.decode(row);
}

/**
 * Asks, unless somebody has asked the same and nobody has answered yet. What has expired makes room. Nobody decides until the
 * batch is written.
 */
export function requestOps(store: TenantStore, { lastsMs, ...row }: NewApproval): WriteOp[] {
  return [
    store.op(lapseOfCall, [timeout, ...paramsOf(row)]),
    store.op(insertApproval, [...askedParams(row), Math.ceil(lastsMs)]),
  ];
}

/**
 * Around the op that opens a wait for a request: asks, so that neither is there without the other. Where the same is asked already,
 * the wait is for that request. The frame of the wait says which it is, where it has the id and the deadline's mark.
 */
export function askOps(store: TenantStore, request: NewApproval, waitId: string, open: WriteOp): WriteOp[] {
  const { id, bound_to } = request;
  const frame = [bound_to, JSON.stringify(deadlineMark(id)), id];
  const adopted = [...frame, bound_to, bound_to, ofAnother, waitId, ...paramsOf(request)];
  return [...requestOps(store, request), open, store.op(adoptPending, adopted)];
}

/** What stands in a frame for the deadline of a request, which the store says as it is written. */
export function deadlineMark(id: string): string {
  return `${id}.deadline`;
}

/** Asks what no other call asks. `deadline` is epoch milliseconds. */
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

/** Marks every request of the tenant whose time is over. */
export async function lapseApprovals(store: TenantStore): Promise<void> {
  await store.write([store.op(lapseAll, [timeout])]);
}

/** Decides, and answers every call that waits. Refuses with conflict when it is decided, over or unknown. */
export function decideOps(store: TenantStore, id: string, decision: Decision, by: string): WriteOp[] {
  const answer = answerText(decision, by);
  return [store.op(decideApproval, [decision.decision, answer, id], 1), answerWaitsOfApprovalOp(store, id, answer)];
}

/** Around the op that opens a wait for a request: the wait is answered at once when the request is decided already. */
export function joinOps(store: TenantStore, id: string, waitId: string, open: WriteOp): WriteOp[] {
  return [store.op(lockApproval, [id]), open, store.op(joinApproval, [id, waitId, id])];
}

/** Why a call does not wait any more: its time was over, its run was stopped, its user has said something else. */
export type WhyLeft = "timeout" | "aborted" | "superseded";

/** Around the op that ends a wait without a decision: the request is closed too, unless somebody else waits for it. */
export function leaveOps(store: TenantStore, id: string, why: WhyLeft, close: WriteOp): WriteOp[] {
  const closed = why === "timeout" ? ["expired", timeout] : ["denied", why === "aborted" ? aborted : superseded];
  return [store.op(lockApproval, [id]), close, store.op(leaveApproval, [...closed, id, id])];
}

/** The same for all that a run waits for which does not go on. Refuses with conflict when one of them is closed. */
export function abandonOps(store: TenantStore, waits: readonly WaitRow[]): WriteOp[] {
  return waits.flatMap((wait) =>
    wait.approval_id === null
      ? []
      : leaveOps(store, wait.approval_id, whyAbandoned(wait), closeWaitOp(store, wait.wait_id)),
  );
}

/** What has ended a wait of which its run has not heard any more. */
function whyAbandoned(wait: WaitRow): WhyLeft {
  if (wait.state !== "expired") return "aborted";
  return isSuperseded(wait) ? "superseded" : "timeout";
}

/** Takes a grant that is good for one call. Refuses with conflict when another call has it. */
export function claimGrantOp(store: TenantStore, id: string, call: string): WriteOp {
  return store.op(claimGrant, [call, id, call], 1);
}

/** The call that has a grant for one call is about to be made. */
export function consumeGrantOp(store: TenantStore, id: string): WriteOp {
  return store.op(consumeGrant, [id]);
}

/** Deletes what a thread has asked for, but what another one waits for. */
export function deleteApprovalsOp(store: TenantStore, threadId: string, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadId, threadKey]);
}

/** What was said to a request; null while nothing was. */
export function decisionOf({ decision }: Pick<ApprovalRow, "decision">): Decision | null {
  return decision === null ? null : (decision.value as Decision);
}

function paramsOf({ manifest_id, tool_name, call_signature }: ApprovalKey): Param[] {
  return [manifest_id, tool_name, call_signature];
}

function answerText(value: Decision, by: string): string {
  return JSON.stringify({ value, by } satisfies WaitAnswer);
}
