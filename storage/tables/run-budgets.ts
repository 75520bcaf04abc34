import type { BudgetUsed } from "../../bus/protocol/task.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, real, selectOne, table, text, upsertInto } from "../store/table.ts";

// The budget that a run shares with its tasks (decision 99: a shared budget is a row). Background tasks continue after
// the end of the run. Its row has the id of the run. A run reserves an amount with one update, which changes nothing if it would
// exceed the budget. The batch that stores a model's reply settles the reservation. Each spending run has a share,
// which records its current reservation. A run that resumes after a crash first releases that. The budget is deleted
// with its last share.
//
// A settlement may also be a separate batch, which is repeated if its outcome is unknown. Such batches are numbered,
// and the share stores the last number, so that a repeated one has no effect. The numbers of a process are above those
// of earlier processes.
//
// Operations that read the share and change the budget lock the budget first, in a separate statement. On Postgres, a
// statement that has waited for a row sees the old state of other tables.

const budgetTable = table("run_budgets", {
  run_id: text,
  /** Key of the thread in which the root run started. */
  root_key: integer,
  max_tool_calls: integer,
  max_hops: integer,
  max_input_tokens: integer,
  max_output_tokens: integer,
  max_cost_usd: real,
  /** Used and reserved amounts of all spending runs. */
  tool_calls: integer,
  hops: integer,
  input_tokens: integer,
  output_tokens: integer,
  cost_usd: real,
});

/** A stored budget. */
export type RunBudgetRow = RowIn<typeof budgetTable>;

const amounts = "input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost_usd = cost_usd + ?";
/** Tolerance for rounding errors of a sum. */
const cents = "0.000000001";

const openBudget = upsertInto(budgetTable, ["run_id"]);
const insertShare = tenantSql(
  "budget_share_insert",
  `INSERT INTO budget_shares (tenant_id, budget_id, run_id, root_key, task_id, input_tokens, output_tokens, cost_usd)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?)`,
);
const openShare = tenantSql(
  "budget_share_open",
  `INSERT INTO budget_shares (tenant_id, budget_id, run_id, root_key, input_tokens, output_tokens, cost_usd)
   VALUES (:tenant, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant_id, budget_id, run_id) DO UPDATE SET
     input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cost_usd = excluded.cost_usd`,
);
const insertFirstShare = tenantSql(
  "budget_share_insert_first",
  `INSERT INTO budget_shares (tenant_id, budget_id, run_id, root_key, task_id, input_tokens, output_tokens, cost_usd)
   SELECT :tenant, run_id, CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT), 0, 0, 0 FROM run_budgets
   WHERE tenant_id = :tenant AND run_id = ? AND
     (SELECT COUNT(DISTINCT task_id) FROM budget_shares WHERE tenant_id = :tenant AND root_key = ?) < ?`,
);
const lockBudget = tenantSql(
  "run_budget_lock",
  "UPDATE run_budgets SET hops = hops WHERE tenant_id = :tenant AND run_id = ?",
);
const reserve = tenantSql(
  "run_budget_reserve",
  `UPDATE run_budgets SET ${amounts} WHERE tenant_id = :tenant AND run_id = ? AND input_tokens + ? <= max_input_tokens
     AND output_tokens + ? <= max_output_tokens AND cost_usd + ? <= max_cost_usd + ${cents}`,
);
const settle = tenantSql(
  "run_budget_settle",
  `UPDATE run_budgets SET ${amounts} WHERE tenant_id = :tenant AND run_id = ?`,
);
const countCall = tenantSql(
  "run_budget_count",
  `UPDATE run_budgets SET tool_calls = tool_calls + 1, hops = hops + ?
   WHERE tenant_id = :tenant AND run_id = ? AND tool_calls < max_tool_calls AND hops + ? <= max_hops`,
);
const hold = tenantSql(
  "budget_share_hold",
  `UPDATE budget_shares SET ${amounts} WHERE tenant_id = :tenant AND budget_id = ? AND run_id = ?`,
);
const held = (what: string): string =>
  `(SELECT s.${what} FROM budget_shares s WHERE s.tenant_id = :tenant AND s.budget_id = run_budgets.run_id AND s.run_id = ?)`;
const ofRun =
  "SELECT budget_id FROM budget_shares INDEXED BY budget_shares_run WHERE tenant_id = :tenant AND run_id = ?";
const settleOnce = tenantSql(
  "run_budget_settle_once",
  `UPDATE run_budgets SET ${amounts} WHERE tenant_id = :tenant AND run_id = ? AND ${held("settled")} < ?`,
);
const holdOnce = tenantSql(
  "budget_share_hold_once",
  `UPDATE budget_shares SET ${amounts}, settled = ? WHERE tenant_id = :tenant AND budget_id = ? AND run_id = ? AND settled < ?`,
);
const lockBudgets = tenantSql(
  "run_budgets_lock",
  `UPDATE run_budgets SET hops = hops WHERE tenant_id = :tenant AND run_id IN (${ofRun})`,
);
const giveBack = tenantSql(
  "run_budgets_give_back",
  `UPDATE run_budgets SET input_tokens = input_tokens - ${held("input_tokens")},
     output_tokens = output_tokens - ${held("output_tokens")}, cost_usd = cost_usd - ${held("cost_usd")}
   WHERE tenant_id = :tenant AND run_id IN (${ofRun})`,
);
const clearShares = tenantSql(
  "budget_shares_clear",
  `UPDATE budget_shares SET settled = ?, input_tokens = 0, output_tokens = 0, cost_usd = 0
   WHERE tenant_id = :tenant AND run_id = ?`,
);
const deleteLeft = tenantSql(
  "run_budgets_delete_left",
  `DELETE FROM run_budgets WHERE tenant_id = :tenant AND run_id IN (${ofRun}) AND NOT EXISTS
     (SELECT 1 FROM budget_shares o
      WHERE o.tenant_id = :tenant AND o.budget_id = run_budgets.run_id AND o.run_id <> ?)`,
);
const deleteShares = tenantSql(
  "budget_shares_delete_run",
  "DELETE FROM budget_shares WHERE tenant_id = :tenant AND run_id = ?",
);
const deleteOfRoot = tenantSql(
  "run_budgets_delete",
  "DELETE FROM run_budgets WHERE tenant_id = :tenant AND root_key = ?",
);
const deleteSharesOfRoot = tenantSql(
  "budget_shares_delete",
  "DELETE FROM budget_shares WHERE tenant_id = :tenant AND root_key = ?",
);
const countTasks = tenantSql(
  "budget_shares_tasks",
  `SELECT COUNT(DISTINCT task_id) AS tasks FROM budget_shares WHERE tenant_id = :tenant AND root_key = ?`,
);
const selectSharers = tenantSql(
  "budget_shares_sharers",
  `SELECT COUNT(DISTINCT task_id) + COALESCE(MAX(CASE WHEN task_id IS NULL THEN 1 ELSE 0 END), 0) AS sharers,
     COALESCE(SUM(CASE WHEN run_id <> ? AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END), 0) AS holding,
     COALESCE(MAX(CASE WHEN run_id = budget_id THEN 1 ELSE 0 END), 0) AS owned
   FROM budget_shares WHERE tenant_id = :tenant AND budget_id = ?`,
);

/** Returns the budget that a run shares with others. */
export const runBudgetById = selectOne(budgetTable, ["run_id"]);

/**
 * Creates the shared budget of a run. `unused` is the part of its amounts that is only reserved. May be repeated with
 * current amounts if its outcome is unknown, because no task has joined yet.
 */
export function openBudgetOps(store: TenantStore, budget: RunBudgetRow, unused: BudgetUsed): WriteOp[] {
  const { run_id, root_key } = budget;
  return [openBudget(store, budget), store.op(openShare, [run_id, run_id, root_key, ...list(unused)], 1)];
}

/** A task, and the budgets that it spends from. */
export interface TaskShare {
  readonly run_id: string;
  /** Null for a task that its parent waits for: it has no part of its own. */
  readonly task_id: string | null;
  readonly root_key: number;
  /** Outermost first. */
  readonly budgets: readonly string[];
}

/**
 * Adds a task to its budgets. Refuses with conflict if a budget was deleted with its thread, or if a background task would exceed
 * `tasksMax` of the thread.
 */
export function joinBudgetOps(store: TenantStore, task: TaskShare, tasksMax: number): WriteOp[] {
  const { run_id, task_id, root_key, budgets } = task;
  // The lock lets concurrent tasks see each other's shares.
  return budgets.flatMap((id, at) => [
    store.op(lockBudget, [id], 1),
    at === 0 && task_id !== null
      ? store.op(insertFirstShare, [run_id, root_key, task_id, id, root_key, tasksMax], 1)
      : store.op(insertShare, [id, run_id, root_key, task_id, 0, 0, 0], 1),
  ]);
}

/** Reserves an amount for a run. Refuses with conflict if it exceeds one of the budgets. */
export function reserveOps(
  store: TenantStore,
  budgets: readonly string[],
  runId: string,
  wanted: BudgetUsed,
): WriteOp[] {
  const values = list(wanted);
  return budgets.flatMap((id) => [
    store.op(reserve, [...values, id, ...values], 1),
    store.op(hold, [...values, id, runId], 1),
  ]);
}

/** A reservation, and the amount that was used of it. */
export interface Settlement {
  readonly aside: BudgetUsed;
  readonly used: BudgetUsed;
}

/**
 * Settles a reservation. With a number, it has no effect if that or a later number was stored before. Numbers grow in
 * the order of sending, and start above the number at the reset of the share, or 0.
 */
export function settleOps(
  store: TenantStore,
  budgets: readonly string[],
  runId: string,
  { aside, used }: Settlement,
  number: number | null,
): WriteOp[] {
  const [before, after] = [list(aside), list(used)];
  const more = after.map((value, at) => value - (before[at] ?? 0));
  const back = before.map((value) => -value);
  return budgets.flatMap((id) =>
    number === null
      ? [store.op(settle, [...more, id]), store.op(hold, [...back, id, runId])]
      : [
          store.op(lockBudget, [id]),
          store.op(settleOnce, [...more, id, runId, number]),
          store.op(holdOnce, [...back, number, id, runId, number]),
        ],
  );
}

/** Counts a tool call, and a task if it is one. Refuses with conflict if the limit is reached. */
export function countCallOps(store: TenantStore, budgets: readonly string[], isTask: boolean): WriteOp[] {
  const hops = isTask ? 1 : 0;
  return budgets.map((id) => store.op(countCall, [hops, id, hops], 1));
}

/**
 * Releases the reservations of a run that resumes, because they were lost with its process. Late settlements have
 * numbers up to `number` and no effect.
 */
export function resetShareOps(store: TenantStore, runId: string, number: number): WriteOp[] {
  return [...giveBackOps(store, runId), store.op(clearShares, [number, runId])];
}

/** Removes a run from its budgets. No effect if it shares none. */
export function leaveBudgetOps(store: TenantStore, runId: string): WriteOp[] {
  return [...giveBackOps(store, runId), store.op(deleteLeft, [runId, runId]), store.op(deleteShares, [runId])];
}

function giveBackOps(store: TenantStore, runId: string): WriteOp[] {
  return [store.op(lockBudgets, [runId]), store.op(giveBack, [runId, runId, runId, runId])];
}

/** Deletes the budgets of a thread. */
export function deleteBudgetsOps(store: TenantStore, rootKey: number): WriteOp[] {
  return [store.op(deleteOfRoot, [rootKey]), store.op(deleteSharesOfRoot, [rootKey])];
}

/** Returns the number of running background tasks of a thread. */
export async function backgroundTasks(store: TenantStore, rootKey: number): Promise<number> {
  const [row] = await store.read(countTasks, rootKey);
  return Number(row?.tasks ?? 0);
}

/** The runs that share a budget. */
export interface BudgetSharers {
  /** Among how many the budget is divided: each background task, and the budget's own run with the tasks that it waits for. */
  readonly sharers: number;
  /** Number of other runs that hold reservations. */
  readonly holding: number;
  /** True until the budget's own run has ended. */
  readonly isOwned: boolean;
}

/** Returns the runs that share a budget with a run. */
export async function sharersOf(store: TenantStore, budgetId: string, runId: string): Promise<BudgetSharers> {
  const [row] = await store.read(selectSharers, runId, budgetId);
  return { sharers: Number(row?.sharers ?? 0), holding: Number(row?.holding ?? 0), isOwned: row?.owned === 1 };
}

function list({ input_tokens, output_tokens, cost_usd }: BudgetUsed): [number, number, number] {
  return [input_tokens, output_tokens, cost_usd];
}
