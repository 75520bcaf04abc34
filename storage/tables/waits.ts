import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";

// Every open question of a run is a row until the run ends (decision 87: waits are rows). An answer is one guarded
// update, from any connection, host or time, and the first one wins. The run gets a message about the answer as a hint
// only; the row is authoritative. Deadlines use the store's clock.

/** The principals that may answer. */
export interface WaitAnswerers {
  /** Required scopes, all of them. */
  readonly scopes: readonly string[];
  /** The only principal that may answer; null for any with the scopes. */
  readonly principal: string | null;
  /** The principal that may not answer, because it asked; null for none. */
  readonly not_principal: string | null;
}

/** The waiting call, and its state for the resume. */
export interface WaitingCall {
  readonly tool_call_id: string;
  readonly tool: string;
  /** As changed by the controls. */
  readonly args: unknown;
  /** The control that asked, and its rule; null if the tool itself asked. */
  readonly control: string | null;
  readonly rule?: string;
  /** The tool's declared effect, if a dead process had started the call, which may have run. */
  readonly begun?: string;
  /** Set if a person has edited the arguments. */
  readonly edited?: true;
  /** The verdicts of the controls before the wait; absent for none. */
  readonly spoken?: readonly object[];
}

/** The frame for subscribers while the wait is open. */
export interface WaitFrame {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A text to push to a list. */
export interface WaitPush {
  readonly list: string;
  readonly text: string;
}

/** An answer and its author. */
export interface WaitAnswer {
  readonly value: unknown;
  readonly by: string;
  /** Set if it arrived after the end of the wait, so that no run received it. */
  readonly late?: true;
}

/** Current format of new rows. */
const format = 1;

const waitTable = table("waits", {
  wait_id: text,
  thread_key: integer,
  suffix: text,
  run_id: text,
  /** Key of the thread that shows the question: the root thread of a task, else the run's own. */
  asked_on: integer,
  /** 1 for a background task or a task below one: new messages to the thread do not end its questions. */
  beside: integer,
  /** Kind of the wait: `approval`, `question`, `task` and others. */
  kind: text,
  /** Text of the question, for those who may answer. */
  subject: text,
  may_answer: json<WaitAnswerers>(),
  call: json<WaitingCall>(),
  opened_at: integer,
  /** Time on the store's clock after which no answer is accepted; null for none. */
  deadline: nullable(integer),
  state: oneOf("open", "answered", "expired", "closed"),
  answer: nullable(json<WaitAnswer>()),
  /** The approval request that decides it. */
  approval_id: nullable(text),
  frame: nullable(json<WaitFrame>()),
  /** The id by which clients answer: of the call, or of the question. */
  asked_as: nullable(text),
  /** A text to push to a list at least once; null after the push has succeeded, or if there is none. */
  push: nullable(json<WaitPush>()),
  /** The worker of a run without a thread; null for a run on a thread, whose own row names it. */
  owner: nullable(text),
  /** Changes when the JSON of a row changes in a way that older code cannot read. */
  format: integer,
});

/** A stored wait. */
export type WaitRow = Omit<RowIn<typeof waitTable>, "format">;
/** A new wait. */
export type NewWait = Omit<WaitRow, "state" | "answer" | "push" | "owner"> & {
  readonly push?: WaitPush | null;
  readonly owner?: string | null;
};

const insertWait = insertInto(waitTable);
const answerWait = tenantSql(
  "wait_answer",
  `UPDATE waits SET state = 'answered', answer = ?
   WHERE tenant_id = :tenant AND wait_id = ? AND state = 'open' AND (deadline IS NULL OR deadline > :now)`,
);
const expireWait = tenantSql(
  "wait_expire",
  `UPDATE waits SET state = 'expired'
   WHERE tenant_id = :tenant AND run_id = ? AND state = 'open' AND deadline <= :now`,
);
const supersede = tenantSql(
  "waits_supersede",
  `UPDATE waits SET state = 'expired', answer = ?
   WHERE tenant_id = :tenant AND asked_on = ? AND beside = 0 AND state = 'open'
     AND kind NOT IN ('client_tool', 'queue', 'task')`,
);
const closeWait = tenantSql(
  "wait_close",
  "UPDATE waits SET state = 'closed' WHERE tenant_id = :tenant AND wait_id = ? AND state <> 'closed'",
);
const closeOfRun = tenantSql(
  "waits_close",
  "UPDATE waits SET state = 'closed' WHERE tenant_id = :tenant AND run_id = ? AND state <> 'closed'",
);
const selectOfRun = tenantSql(
  "waits_of_run",
  `SELECT ${waitTable.columns} FROM waits WHERE tenant_id = :tenant AND run_id = ? AND state <> 'closed'
   ORDER BY opened_at, wait_id LIMIT ?`,
);
const selectOpenedIn = tenantSql(
  "waits_opened_in",
  `SELECT ${waitTable.columns} FROM waits WHERE tenant_id = :tenant AND run_id = ? AND opened_at >= ? AND opened_at < ?
   ORDER BY opened_at, wait_id LIMIT ?`,
);
const answerOfApproval = tenantSql(
  "waits_answer_approval",
  `UPDATE waits SET state = 'answered', answer = ?
   WHERE tenant_id = :tenant AND approval_id = ? AND state = 'open' AND (deadline IS NULL OR deadline > :now)`,
);
const selectOfApproval = tenantSql(
  "waits_of_approval",
  `SELECT ${waitTable.columns} FROM waits WHERE tenant_id = :tenant AND approval_id = ? AND state IN ('open', 'answered')
   ORDER BY opened_at, wait_id LIMIT ?`,
);
const selectApprovalsOfRun = tenantSql(
  "waits_approvals_of_run",
  `SELECT DISTINCT approval_id FROM waits WHERE tenant_id = :tenant AND run_id = ? AND approval_id IS NOT NULL`,
);
const mayBeAnswered = "state = 'open' AND (deadline IS NULL OR deadline > :now)";
// A UNION, because with an OR SQLite would scan the open waits of the whole tenant.
const selectOpenOfThread = tenantSql(
  "waits_open_of_thread",
  `SELECT ${waitTable.columns} FROM waits WHERE tenant_id = :tenant AND asked_on = ? AND ${mayBeAnswered}
   UNION ALL SELECT ${waitTable.columns} FROM waits
   WHERE tenant_id = :tenant AND thread_key = ? AND asked_on <> thread_key AND ${mayBeAnswered}
   ORDER BY opened_at, wait_id LIMIT ?`,
);
const deleteWait = tenantSql("wait_delete", "DELETE FROM waits WHERE tenant_id = :tenant AND wait_id = ?");
const deleteOfRun = tenantSql(
  "waits_delete_run",
  "DELETE FROM waits WHERE tenant_id = :tenant AND run_id = ? AND thread_key < 0",
);
const deleteOfThread = tenantSql("waits_delete", "DELETE FROM waits WHERE tenant_id = :tenant AND thread_key = ?");
// Excludes postponed durable runs, which resume when their time comes.
const isAwake = `NOT EXISTS
     (SELECT 1 FROM fibers f WHERE f.tenant_id = waits.tenant_id AND f.run_id = waits.run_id AND (f.wake_at > :now OR f.held = 1))`;
const selectDue = systemSql(
  "waits_due",
  `SELECT tenant_id, suffix, run_id, wait_id FROM waits
     WHERE state IN ('answered', 'expired') AND wait_id > ? AND ${isAwake}
   UNION ALL SELECT tenant_id, suffix, run_id, wait_id FROM waits
     WHERE state = 'open' AND deadline <= :now AND wait_id > ? AND ${isAwake}
   ORDER BY wait_id LIMIT ?`,
);

/** Marks an expired wait as ended by a new message and not by its deadline. */
const superseded = JSON.stringify({ value: "superseded", by: "svc" } satisfies WaitAnswer);

/** Max open waits of one run (decision 105). */
export const waitsOfRunMax = 64;

/** Max open waits on one thread: those of its run, and of the tasks that one run may start. */
export const waitsOfThreadMax = 6 * waitsOfRunMax;

/** Returns a wait of a tenant by its id. */
export const waitById = selectOne(waitTable, ["wait_id"]);

/** The `thread_key` of a wait whose run has no thread. */
export const noThread = -1;

/** Max waits of a run that one read returns. */
const waitsTold = 500;

/** Max waits for one approval request that one read returns. */
const waitsOfApprovalMax = 1_000;

/** Opens a wait of a run. */
export function openWaitOp(store: TenantStore, wait: NewWait): WriteOp {
  return insertWait(store, { push: null, owner: null, ...wait, state: "open", answer: null, format });
}

/** Answers an open wait. Refuses with conflict if it is answered, expired or unknown. */
export function answerWaitOp(store: TenantStore, waitId: string, answer: WaitAnswer): WriteOp {
  return store.op(answerWait, [JSON.stringify(answer), waitId], 1);
}

/** Marks the overdue waits of a run as expired. */
export function expireWaitsOp(store: TenantStore, runId: string): WriteOp {
  return store.op(expireWait, [runId]);
}

/**
 * Ends the open questions on a thread because its user has sent another message. Waits for clients, queue consumers and
 * tasks stay. The runs resume as if the deadline had passed.
 */
export function supersedeWaitsOp(store: TenantStore, askedOn: number): WriteOp {
  return store.op(supersede, [superseded, askedOn]);
}

/** True if a new message has ended the wait. */
export function isSuperseded({ state, answer }: Pick<WaitRow, "state" | "answer">): boolean {
  return state === "expired" && answer !== null;
}

/** Closes a wait after its outcome is in the log. Refuses with conflict if it is closed. */
export function closeWaitOp(store: TenantStore, waitId: string): WriteOp {
  return store.op(closeWait, [waitId], 1);
}

/** Closes all waits of a run that does not continue. */
export function closeWaitsOp(store: TenantStore, runId: string): WriteOp {
  return store.op(closeOfRun, [runId]);
}

/** Answers all calls that wait for an approval request. `answer` is JSON. */
export function answerWaitsOfApprovalOp(store: TenantStore, approvalId: string, answer: string): WriteOp {
  return store.op(answerOfApproval, [answer, approvalId]);
}

/** Deletes a wait. */
export function deleteWaitOp(store: TenantStore, waitId: string): WriteOp {
  return store.op(deleteWait, [waitId]);
}

/** Deletes the waits of a run without a thread, which ends with its process. */
export function deleteWaitsOfRunOp(store: TenantStore, runId: string): WriteOp {
  return store.op(deleteOfRun, [runId]);
}

/** Deletes the waits of a thread. */
export function deleteWaitsOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadKey]);
}

/** Returns the waits of a run that are not closed, oldest first. */
export async function waitsOfRun(store: TenantStore, runId: string): Promise<WaitRow[]> {
  const rows = await store.read(selectOfRun, runId, waitsOfRunMax);
  return rows.map((row) => waitTable.decode(row));
}

/** Returns all waits that a run opened in a time range, oldest first. */
export async function waitsOpenedIn(
  store: TenantStore,
  runId: string,
  since: number,
  until: number,
): Promise<WaitRow[]> {
  const rows = await store.read(selectOpenedIn, runId, since, until, waitsTold);
  return rows.map((row) => waitTable.decode(row));
}

/** Returns the open and answered waits for an approval request, oldest first. */
export async function waitsOfApproval(store: TenantStore, approvalId: string): Promise<WaitRow[]> {
  const rows = await store.read(selectOfApproval, approvalId, waitsOfApprovalMax);
  return rows.map((row) => waitTable.decode(row));
}

/** Returns the approval requests that a run has waited for. */
export async function approvalsOfRun(store: TenantStore, runId: string): Promise<string[]> {
  const rows = await store.read(selectApprovalsOfRun, runId);
  return rows.map((row) => row.approval_id as string);
}

/** Returns the open waits of a thread, and those shown on it, oldest first. */
export async function openWaitsOfThread(store: TenantStore, threadKey: number, limit: number): Promise<WaitRow[]> {
  const rows = await store.read(selectOpenOfThread, threadKey, threadKey, limit);
  return rows.map((row) => waitTable.decode(row));
}

/** Returns runs with an answered or overdue wait, in pages by wait id. */
export async function dueWaits(
  store: Scope,
  afterWaitId: string,
  limit: number,
): Promise<{ tenant_id: string; suffix: string; run_id: string; wait_id: string }[]> {
  const rows = await store.read(selectDue, afterWaitId, afterWaitId, limit);
  return rows as { tenant_id: string; suffix: string; run_id: string; wait_id: string }[];
}
