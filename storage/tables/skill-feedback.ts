import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import type { SkillId } from "./skills.ts";

// Feedback on skills. A person decides it once. Accepted feedback may also be a job: a worker rewrites the skill.

const feedbackTable = table(
  "skill_feedback",
  {
    id: text,
    ts: integer,
    /** Empty for the tenant's library; the digest of a personal one. */
    library: text,
    name: text,
    target_version: nullable(text),
    source: oneOf("human", "agent"),
    /** The subject, or the name of the agent that wrote it. */
    author: text,
    /** The caller of the agent that wrote it; null for a person. */
    principal: nullable(text),
    body: text,
    suggested_patch: nullable(text),
    status: oneOf("pending", "accepted", "rejected", "applied", "failed"),
    decided_at: nullable(integer),
    decided_by: nullable(text),
    decision_note: nullable(text),
    /** Bytes that it counts against the quota. */
    bytes: integer,
    /** 1 if a worker rewrites the skill. */
    improve: integer,
    /** Who accepted it, and with it asked for the rewrite; null for none. */
    asked: nullable(json<JobOwner>()),
    /** The claim; see skill-jobs.ts. */
    claimed_by: nullable(text),
    claimed_at: nullable(integer),
    heartbeat_at: nullable(integer),
    attempts: integer,
    due_at: nullable(integer),
    /** The draft that applies it. */
    result_version: nullable(text),
    model: nullable(text),
    error: nullable(text),
  },
  ({ text: body }) => ({
    ...({
      id: "row",
      ts: 5,
      library: "row",
      name: "row",
      target_version: body,
      source: "human",
      author: body,
      principal: body,
    } as const),
    ...({
      body,
      suggested_patch: body,
      status: "pending",
      decided_at: 5,
      decided_by: body,
      decision_note: body,
    } as const),
    ...{ bytes: 5, improve: 0, asked: { sub: body, scopes: [], scheme: body, issuer: body }, claimed_by: null },
    ...{
      claimed_at: null,
      heartbeat_at: null,
      attempts: 0,
      due_at: null,
      result_version: body,
      model: body,
      error: body,
    },
  }),
);

/** Feedback on a skill. */
export type SkillFeedbackRow = RowIn<typeof feedbackTable>;
/** The state of feedback. */
export type FeedbackStatus = SkillFeedbackRow["status"];

/** Max feedback of one skill that may wait for a decision. */
export const pendingFeedbackMax = 50;

/** Inserts feedback. */
export const insertFeedbackOp = insertInto(feedbackTable);
/** Returns feedback by its id. */
export const storedFeedback = selectOne(feedbackTable, ["id"]);

const allStatuses: readonly FeedbackStatus[] = ["pending", "accepted", "rejected", "applied", "failed"];

/** Decodes a row of another statement. */
export const decodeFeedback = feedbackTable.decode;
/** The columns, in the form of a SELECT list. */
export const feedbackColumns = feedbackTable.columns;

const decide = tenantSql(
  "skill_feedback_decide",
  `UPDATE skill_feedback SET status = ?, decided_at = ?, decided_by = ?, decision_note = ?, improve = ?, asked = ?,
     due_at = CASE WHEN ? = 1 THEN :now END
   WHERE tenant_id = :tenant AND id = ? AND status = 'pending'`,
);
const countPending = tenantSql(
  "skill_feedback_pending",
  `SELECT COUNT(*) AS waiting FROM skill_feedback INDEXED BY skill_feedback_by_name
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND status = 'pending'`,
);
const selectByStatus = tenantSql(
  "skill_feedback_of_status",
  `SELECT ${feedbackTable.columns} FROM skill_feedback INDEXED BY skill_feedback_by_status
   WHERE tenant_id = :tenant AND library = ? AND status = ? AND (ts, id) > (?, ?) ORDER BY ts, id LIMIT ?`,
);
const selectByName = tenantSql(
  "skill_feedback_of_name",
  `SELECT ${feedbackTable.columns} FROM skill_feedback INDEXED BY skill_feedback_by_name
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND (ts, id) < (?, ?) AND status IN (?, ?, ?, ?, ?) ORDER BY ts DESC, id DESC LIMIT ?`,
);

/** Decides feedback. Refuses with conflict if it is decided. */
export function decideFeedbackOp(store: TenantStore, row: SkillFeedbackRow): WriteOp {
  const { status, decided_at, decided_by, decision_note, improve, asked, id } = row;
  const asker = asked === null ? null : JSON.stringify(asked);
  return store.op(decide, [status, decided_at, decided_by, decision_note, improve, asker, improve, id], 1);
}

/** Returns how much feedback of a skill waits for a decision. */
export async function pendingFeedback(store: TenantStore, { library, name }: SkillId): Promise<number> {
  const [row] = await store.read(countPending, library, name);
  return Number(row?.waiting ?? 0);
}

/** Returns the feedback of a status on skills of a library after a position, the oldest first. */
export async function feedbackOfStatus(
  store: TenantStore,
  library: string,
  status: FeedbackStatus,
  after: readonly [ts: number, id: string],
  limit: number,
): Promise<SkillFeedbackRow[]> {
  return (await store.read(selectByStatus, library, status, ...after, limit)).map(feedbackTable.decode);
}

/** Returns the feedback of a skill before a position, the newest first; of one status, or of all. */
export async function feedbackOfSkill(
  store: TenantStore,
  { library, name }: SkillId,
  status: FeedbackStatus | null,
  before: readonly [ts: number, id: string],
  limit: number,
): Promise<SkillFeedbackRow[]> {
  const wanted = status === null ? allStatuses : allStatuses.map(() => status);
  return (await store.read(selectByName, library, name, ...before, ...wanted, limit)).map(feedbackTable.decode);
}
