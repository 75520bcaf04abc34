import type { BudgetUsed } from "../../bus/protocol/run.ts";
import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, type RowIn, real, selectOne, table, text, upsertInto } from "../store/table.ts";

// A run that has background tasks spends with them, and they go on when it is over (decision 99). What it may spend is then a row, under
// its id: whoever is about to use something sets it aside there, in one update that changes nothing where it would be too much, and says
// in the batch that keeps what the model has answered what was used of it. Each run that spends has a share, which says what of the sum
// is set aside for it at the moment: who goes on after a crash gives that back first. The row goes with the last share.
//
// What was used may also be said in a batch of its own, and such a batch is sent again when it is not known whether it was applied. Those
// have numbers, and the share notes the last one: what it has noted changes nothing any more. The numbers of a process are above those of
// any before.
//
// What reads the share and changes the budget locks the budget in a statement of its own first: on Postgres a statement that has waited
// for a row sees the other tables as they were before.

const budgetTable = table("run_budgets", {
  run_id: text,
  /** The key of the conversation that all began in. */
  root_key: integer,
  max_tool_calls: integer,
  max_hops: integer,
  max_input_tokens: integer,
  max_output_tokens: integer,
  max_cost_usd: real,
  /** What was used and what is set aside, of all who spend it. */
  tool_calls: integer,
  hops: integer,
  input_tokens: integer,
  output_tokens: integer,
  cost_usd: real,
});

/** A budget as it is stored. */
export type RunBudgetRow = RowIn<typeof budgetTable>;

const amounts = "input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost_usd = cost_usd + ?";
/** The last digits of a sum. */
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
   SELECT :tenant, run_id, CAST(? AS TEXT), root_key, CAST(? AS TEXT), 0, 0, 0 FROM run_budgets
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
  `SELECT COUNT(*) AS sharers, COALESCE(SUM(CASE WHEN run_id <> ? AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END), 0) AS holding
   FROM budget_shares WHERE tenant_id = :tenant AND budget_id = ?`,
);

/** The budget of a run that spends with others. */
export const runBudgetById = selectOne(budgetTable, ["run_id"]);

/**
 * A run spends with others from now on; `unused` of what it has used by now is only set aside. May be said again with what is so by then
 * where it is not known whether it was written: nobody has joined it yet.
 */
export function openBudgetOps(store: TenantStore, budget: RunBudgetRow, unused: BudgetUsed): WriteOp[] {
  const { run_id, root_key } = budget;
  return [openBudget(store, budget), store.op(openShare, [run_id, run_id, root_key, ...list(unused)], 1)];
}

/** A background task of a conversation, and which budgets it spends of. */
export interface BackgroundShare {
  readonly run_id: string;
  readonly task_id: string;
  readonly root_key: number;
  /** Outermost first. */
  readonly budgets: readonly string[];
}

/**
 * A background task begins. Refuses with conflict when as many of the conversation are in flight as may, or the budget is gone with the
 * conversation.
 */
export function joinBudgetOps(store: TenantStore, task: BackgroundShare, tasksMax: number): WriteOp[] {
  const { run_id, task_id, root_key, budgets } = task;
  // Of those who begin at the same time each sees the others.
  return budgets.flatMap((id, at) => [
    store.op(lockBudget, [id], 1),
    at === 0
      ? store.op(insertFirstShare, [run_id, task_id, id, root_key, tasksMax], 1)
      : store.op(insertShare, [id, run_id, root_key, task_id, 0, 0, 0], 1),
  ]);
}

/** Sets something aside for a run. Refuses with conflict when one of the budgets has not got it. */
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

/** What was set aside for a run, and what was used of it. */
export interface Settlement {
  readonly aside: BudgetUsed;
  readonly used: BudgetUsed;
}

/**
 * Says what was used of what was set aside. With a number it changes nothing when that or a later one was written before: they are above
 * that with which the share was reset, 0 for one that was not, and in the order in which the batches are sent.
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

/** Counts a tool call, and a task where it is one. Refuses with conflict when it is one too many. */
export function countCallOps(store: TenantStore, budgets: readonly string[], isTask: boolean): WriteOp[] {
  const hops = isTask ? 1 : 0;
  return budgets.map((id) => store.op(countCall, [hops, id, hops], 1));
}

/**
 * A run that goes on has nothing set aside: what it had was lost with its process. What that may yet say has a number up to `number`, and
 * changes nothing.
 */
export function resetShareOps(store: TenantStore, runId: string, number: number): WriteOp[] {
  return [...giveBackOps(store, runId), store.op(clearShares, [number, runId])];
}

/** A run spends nothing any more. Changes nothing for one that has spent with nobody. */
export function leaveBudgetOps(store: TenantStore, runId: string): WriteOp[] {
  return [...giveBackOps(store, runId), store.op(deleteLeft, [runId, runId]), store.op(deleteShares, [runId])];
}

function giveBackOps(store: TenantStore, runId: string): WriteOp[] {
  return [store.op(lockBudgets, [runId]), store.op(giveBack, [runId, runId, runId, runId])];
}

/** Deletes the budgets of a conversation. */
export function deleteBudgetsOps(store: TenantStore, rootKey: number): WriteOp[] {
  return [store.op(deleteOfRoot, [rootKey]), store.op(deleteSharesOfRoot, [rootKey])];
}

/** How many background tasks of a conversation are in flight. */
export async function backgroundTasks(store: TenantStore, rootKey: number): Promise<number> {
  const [row] = await store.read(countTasks, rootKey);
  return Number(row?.tasks ?? 0);
}

/** How many runs spend a budget, and for how many but this one something of it is set aside. */
export async function sharersOf(
  store: TenantStore,
  budgetId: string,
  runId: string,
): Promise<{ readonly sharers: number; readonly holding: number }> {
  const [row] = await store.read(selectSharers, runId, budgetId);
  return { sharers: Number(row?.sharers ?? 0), holding: Number(row?.holding ?? 0) };
}

function list({ input_tokens, output_tokens, cost_usd }: BudgetUsed): [number, number, number] {
  return [input_tokens, output_tokens, cost_usd];
}
