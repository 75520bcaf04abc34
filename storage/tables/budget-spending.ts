import type { Row } from "../store/statements.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, type RowIn, real, table, text } from "../store/table.ts";

// The spending of the budgets of SVC_BUDGETS in one period (decisions 116 and 188). All processes reserve from the same row with one
// guarded update, which changes nothing if the budget would be exceeded. A reservation that is never settled, because its process was
// killed, stays spent until the period ends.

const spendingTable = table(
  "budget_spending",
  {
    budget_id: text,
    /** Epoch milliseconds. */
    period_start: integer,
    /** The caller of a budget for each caller; empty for other budgets. */
    subject: text,
    /** Spent and reserved amounts. */
    tokens: integer,
    usd: real,
    /** Amounts of calls that have ended. */
    settled_tokens: integer,
    settled_usd: real,
    /** 1 after the warning that most of the budget is spent. */
    warned: integer,
  },
  ({ text: subject }) => ({
    ...{ budget_id: "b", period_start: 0, subject, tokens: 1, usd: 1, settled_tokens: 1, settled_usd: 1, warned: 0 },
  }),
);

/** The spending of a budget in one period. */
export type SpendingRow = RowIn<typeof spendingTable>;
/** Which budget, whose, and in which period. */
export type SpendingPlace = Pick<SpendingRow, "budget_id" | "period_start" | "subject">;

/** An amount of tokens and money. */
export interface Amount {
  readonly tokens: number;
  readonly usd: number;
}

/** Tolerance for rounding errors of a sum. */
const cents = "0.000000001";
const atPlace = "tenant_id = :tenant AND budget_id = ? AND period_start = ? AND subject = ?";

const insertSpending = insertInto(spendingTable, "ledger");
const reserve = tenantSql(
  "budget_reserve",
  `UPDATE budget_spending SET tokens = tokens + ?, usd = usd + ?
   WHERE ${atPlace} AND tokens + ? <= ? AND usd + ? <= ? + ${cents}
   RETURNING ${spendingTable.columns}`,
);
const settle = tenantSql(
  "budget_settle",
  `UPDATE budget_spending SET tokens = tokens + ?, usd = usd + ?, settled_tokens = settled_tokens + ?,
     settled_usd = settled_usd + ?
   WHERE ${atPlace}`,
);
const warn = tenantSql("budget_warn", `UPDATE budget_spending SET warned = 1 WHERE ${atPlace} AND warned = 0`);
const selectSpending = tenantSql(
  "budget_spending_of",
  `SELECT ${spendingTable.columns} FROM budget_spending WHERE ${atPlace}`,
);
const selectPeriod = tenantSql(
  "budget_spending_period",
  `SELECT ${spendingTable.columns} FROM budget_spending WHERE tenant_id = :tenant AND budget_id = ? AND period_start = ?
   ORDER BY subject LIMIT ?`,
);
const deleteOld = systemSql(
  "budget_spending_delete",
  `DELETE FROM budget_spending WHERE (tenant_id, budget_id, period_start, subject) IN
     (SELECT tenant_id, budget_id, period_start, subject FROM budget_spending WHERE period_start < ? LIMIT ?)
   RETURNING budget_id`,
);

/** Creates the row of a period, unless it exists. */
export function openSpendingOp(store: TenantStore, place: SpendingPlace): WriteOp {
  return insertSpending(store, { ...place, tokens: 0, usd: 0, settled_tokens: 0, settled_usd: 0, warned: 0 });
}

/** Reserves an amount. Refuses with conflict if that would exceed the limit. Its batch returns the row. */
export function reserveSpendingOp(store: TenantStore, place: SpendingPlace, wanted: Amount, limit: Amount): WriteOp {
  const { tokens, usd } = wanted;
  return store.op(reserve, [tokens, usd, ...keyOf(place), tokens, limit.tokens, usd, limit.usd], 1);
}

/** Replaces a reserved amount by the used one. */
export function settleSpendingOp(store: TenantStore, place: SpendingPlace, reserved: Amount, used: Amount): WriteOp {
  const more = [used.tokens - reserved.tokens, used.usd - reserved.usd];
  return store.op(settle, [...more, used.tokens, used.usd, ...keyOf(place)]);
}

/** Notes that the warning was sent. Refuses with conflict if it was sent before. */
export function warnSpendingOp(store: TenantStore, place: SpendingPlace): WriteOp {
  return store.op(warn, keyOf(place), 1);
}

/** Decodes the row that a reservation returns. */
export const readSpending: (row: Row) => SpendingRow = spendingTable.decode;

/** Returns the spending of one place; undefined if nothing was reserved yet. */
export async function spendingAt(store: TenantStore, place: SpendingPlace): Promise<SpendingRow | undefined> {
  const [row] = await store.read(selectSpending, ...keyOf(place));
  return row && spendingTable.decode(row);
}

/** Returns the spending of a budget in a period, by subject. */
export async function spendingOfPeriod(
  store: TenantStore,
  budgetId: string,
  periodStart: number,
  limit: number,
): Promise<SpendingRow[]> {
  return (await store.read(selectPeriod, budgetId, periodStart, limit)).map((row) => spendingTable.decode(row));
}

/** Deletes rows of periods that began before a time. Returns their number. */
export async function deleteOldSpending(store: Scope, before: number, limit: number): Promise<number> {
  const [rows = []] = await store.write([store.op(deleteOld, [before, limit])]);
  return rows.length;
}

function keyOf({ budget_id, period_start, subject }: SpendingPlace): [string, number, string] {
  return [budget_id, period_start, subject];
}
