import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";

// Every question that a run puts to the outside is a row until its run is over (decision 87): an answer is one guarded update by
// whoever gets it, on any connection, host or day, and the first one wins. That somebody has answered is told to the run as a hint;
// what it goes by is the row. Deadlines are compared with the store's clock.

/** Who may answer. */
export interface WaitAnswerers {
  /** Whoever answers has all of them. */
  readonly scopes: readonly string[];
  /** The one principal who may; null for everybody with the scopes. */
  readonly principal: string | null;
  /** The one principal who may not, because it asked; null for none. */
  readonly not_principal: string | null;
}

/** The call that waits, and where it goes on. */
export interface WaitingCall {
  readonly tool_call_id: string;
  readonly tool: string;
  /** As the controls have made them. */
  readonly args: unknown;
  /** The control that has asked, and its rule; null when the tool itself has. */
  readonly control: string | null;
  readonly rule?: string;
  /** It was begun by a process that is gone, and may have run: the effect that its tool says it has. */
  readonly begun?: string;
  /** A person has edited the arguments. */
  readonly edited?: true;
}

/** What those who listen are told while the question is open. */
export interface WaitFrame {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A text for a list. */
export interface WaitPush {
  readonly list: string;
  readonly text: string;
}

/** An answer, and who gave it. */
export interface WaitAnswer {
  readonly value: unknown;
  readonly by: string;
  /** It came when the wait was over, and was told to no run. */
  readonly late?: true;
}

const waitTable = table("waits", {
  wait_id: text,
  thread_key: integer,
  suffix: text,
  run_id: text,
  /** The key of the conversation on which clients are asked: of a task the one that it belongs to, else the run's own. */
  asked_on: integer,
  /** 1 where a background task asks, or one below it: what is said to the conversation's run is nothing to them. */
  beside: integer,
  /** What is waited for: `approval`, `question`, `task` and the like. */
  kind: text,
  /** What is asked, for those who may answer. */
  subject: text,
  may_answer: json<WaitAnswerers>(),
  call: json<WaitingCall>(),
  opened_at: integer,
  /** Epoch milliseconds of the store after which nobody may answer; null for none. */
  deadline: nullable(integer),
  state: oneOf("open", "answered", "expired", "closed"),
  answer: nullable(json<WaitAnswer>()),
  /** The request for approval that it is for, which decides it. */
  approval_id: nullable(text),
  frame: nullable(json<WaitFrame>()),
  /** The id by which clients answer it: of the call, or of the question. */
  asked_as: nullable(text),
  /** What is to be pushed to a list and may be pushed twice, until it surely was; null where there is nothing to push again. */
  push: nullable(json<WaitPush>()),
  /** The worker that holds a run without a thread; null for a run on a thread, whose row says it. */
  owner: nullable(text),
});

/** A wait as it is stored. */
export type WaitRow = RowIn<typeof waitTable>;
/** A wait as it is opened. */
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
// With an OR in the place of the second part SQLite would read what is open of the whole tenant.
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
// A durable run that rests is taken up when its time is over.
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

/** Says of an expired wait that it has not run out of time. */
const superseded = JSON.stringify({ value: "superseded", by: "svc" } satisfies WaitAnswer);

/** Questions that one run may have open (decision 105). */
export const waitsOfRunMax = 64;

/** Questions that may be open on one thread: those of its run, and of the tasks that one run may hand out. */
export const waitsOfThreadMax = 6 * waitsOfRunMax;

/** A wait of a tenant by its id. */
export const waitById = selectOne(waitTable, ["wait_id"]);

/** Of the row of a wait whose run has no thread. */
export const noThread = -1;

/** Questions of a run that are told at once. */
const waitsTold = 500;

/** Calls that wait for one request for approval, of which anything is told at once. */
const waitsOfApprovalMax = 1_000;

/** A run begins to wait. */
export function openWaitOp(store: TenantStore, wait: NewWait): WriteOp {
  return insertWait(store, { push: null, owner: null, ...wait, state: "open", answer: null });
}

/** Answers an open wait. Refuses with conflict when it is answered, over or unknown. */
export function answerWaitOp(store: TenantStore, waitId: string, answer: WaitAnswer): WriteOp {
  return store.op(answerWait, [JSON.stringify(answer), waitId], 1);
}

/** Marks the waits of a run whose deadline is over. */
export function expireWaitsOp(store: TenantStore, runId: string): WriteOp {
  return store.op(expireWait, [runId]);
}

/**
 * Ends what is asked on a conversation, since its user has said something else: questions, not what a client, a consumer or another agent is at.
 * The runs are taken up as if their time were over.
 */
export function supersedeWaitsOp(store: TenantStore, askedOn: number): WriteOp {
  return store.op(supersede, [superseded, askedOn]);
}

/** Whether that has ended a wait. */
export function isSuperseded({ state, answer }: Pick<WaitRow, "state" | "answer">): boolean {
  return state === "expired" && answer !== null;
}

/** What came of a wait is in the log. Refuses with conflict when that was said before. */
export function closeWaitOp(store: TenantStore, waitId: string): WriteOp {
  return store.op(closeWait, [waitId], 1);
}

/** Closes all that a run waits for: it will not go on. */
export function closeWaitsOp(store: TenantStore, runId: string): WriteOp {
  return store.op(closeOfRun, [runId]);
}

/** Answers every call that waits for a request for approval, with the JSON of the answer. */
export function answerWaitsOfApprovalOp(store: TenantStore, approvalId: string, answer: string): WriteOp {
  return store.op(answerOfApproval, [answer, approvalId]);
}

/** Deletes a wait. */
export function deleteWaitOp(store: TenantStore, waitId: string): WriteOp {
  return store.op(deleteWait, [waitId]);
}

/** Deletes what a run without a thread has left: it is gone with its process. */
export function deleteWaitsOfRunOp(store: TenantStore, runId: string): WriteOp {
  return store.op(deleteOfRun, [runId]);
}

/** Deletes the waits of a thread. */
export function deleteWaitsOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteOfThread, [threadKey]);
}

/** The waits of a run that are not closed, the oldest first. */
export async function waitsOfRun(store: TenantStore, runId: string): Promise<WaitRow[]> {
  const rows = await store.read(selectOfRun, runId, waitsOfRunMax);
  return rows.map((row) => waitTable.decode(row));
}

/** What a run has asked from one time until another, whatever came of it, the oldest first. */
export async function waitsOpenedIn(
  store: TenantStore,
  runId: string,
  since: number,
  until: number,
): Promise<WaitRow[]> {
  const rows = await store.read(selectOpenedIn, runId, since, until, waitsTold);
  return rows.map((row) => waitTable.decode(row));
}

/** The calls that wait for a request for approval, or were just answered, the oldest first. */
export async function waitsOfApproval(store: TenantStore, approvalId: string): Promise<WaitRow[]> {
  const rows = await store.read(selectOfApproval, approvalId, waitsOfApprovalMax);
  return rows.map((row) => waitTable.decode(row));
}

/** The requests for approval that a run has waited for. */
export async function approvalsOfRun(store: TenantStore, runId: string): Promise<string[]> {
  const rows = await store.read(selectApprovalsOfRun, runId);
  return rows.map((row) => row.approval_id as string);
}

/** What a thread waits for at the moment and what is asked on it, the oldest first. */
export async function openWaitsOfThread(store: TenantStore, threadKey: number, limit: number): Promise<WaitRow[]> {
  const rows = await store.read(selectOpenOfThread, threadKey, threadKey, limit);
  return rows.map((row) => waitTable.decode(row));
}

/** Runs with a wait that is answered or due, in pages by the id of the wait. */
export async function dueWaits(
  store: Scope,
  afterWaitId: string,
  limit: number,
): Promise<{ tenant_id: string; suffix: string; run_id: string; wait_id: string }[]> {
  const rows = await store.read(selectDue, afterWaitId, afterWaitId, limit);
  return rows as { tenant_id: string; suffix: string; run_id: string; wait_id: string }[];
}
