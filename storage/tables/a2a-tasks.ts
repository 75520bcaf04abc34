import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { type RunRow, runTable } from "./runs.ts";

// The A2A tasks of one caller. A task is a run; see 0114_a2a_task_list.ts for the index.

/** Tasks that a count reads. */
const countedMax = 10_000;

/** The tasks to list. */
export interface TaskFilter {
  /** The caller, as `principalId` names it. */
  readonly owner: string;
  /** Empty for all contexts. */
  readonly context: string;
  /** The state, in the words of version 0.3; empty for all. */
  readonly state: string;
  /** Epoch milliseconds of the oldest change. */
  readonly since: number;
}

/** A position in the list: the last change and the id of the task before it. */
export interface TaskPosition {
  readonly at: number;
  readonly id: string;
}

const at = "COALESCE(ended_at, started_at)";
const statesOf = (error: string) => `CASE status
  WHEN 'completed' THEN 'completed' WHEN 'accepted' THEN 'submitted' WHEN 'running' THEN 'working'
  WHEN 'waiting' THEN CASE WHEN EXISTS (SELECT 1 FROM waits w WHERE w.tenant_id = runs.tenant_id AND w.run_id = runs.run_id
    AND w.kind = 'approval' AND w.state = 'open') THEN 'auth-required' ELSE 'working' END
  ELSE CASE WHEN ${error} = 'aborted' THEN 'canceled' ELSE 'failed' END END`;
const chosen = (error: string) => `tenant_id = :tenant AND a2a_owner = ? AND ${at} >= ?
  AND (CAST(? AS TEXT) = '' OR a2a_context = ?) AND (CAST(? AS TEXT) = '' OR ${statesOf(error)} = ?)`;
const errors = { sqlite: "result ->> '$.error'", postgres: "CAST(result AS json) ->> 'error'" };

const page = (error: string) => `SELECT ${runTable.columns} FROM runs WHERE ${chosen(error)}
  AND (${at} < ? OR (${at} = ? AND run_id < ?)) ORDER BY ${at} DESC, run_id DESC LIMIT ?`;
const selectPage = tenantSql("a2a_tasks_page", { sqlite: page(errors.sqlite), postgres: page(errors.postgres) });
const count = (error: string) => `SELECT COUNT(*) AS n FROM
  (SELECT 1 AS one FROM runs WHERE ${chosen(error)} LIMIT ${countedMax}) AS counted`;
const selectCount = tenantSql("a2a_tasks_count", { sqlite: count(errors.sqlite), postgres: count(errors.postgres) });

/** Returns a page of tasks, the last changed first. */
export async function a2aTaskPage(
  store: TenantStore,
  filter: TaskFilter,
  before: TaskPosition | null,
  limit: number,
): Promise<readonly RunRow[]> {
  const { at: until, id } = before ?? { at: Number.MAX_SAFE_INTEGER, id: "" };
  const rows = await store.read(selectPage, ...paramsOf(filter), until, until, id, limit);
  return rows.map((row) => runTable.decode(row));
}

/** Returns the number of tasks, at most 10,000. */
export async function countA2aTasks(store: TenantStore, filter: TaskFilter): Promise<number> {
  const [row] = await store.read(selectCount, ...paramsOf(filter));
  return Number(row?.n ?? 0);
}

function paramsOf({ owner, context, state, since }: TaskFilter) {
  return [owner, since, context, context, state, state];
}
