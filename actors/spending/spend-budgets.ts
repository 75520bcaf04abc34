import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { BudgetReservation, BudgetUsed } from "../../bus/protocol/task.ts";
import type { Breach, ParentBudget } from "../../governance/budget.ts";
import { type AppliedBudget, limitOf, periodAt } from "../../governance/spending.ts";
import type { ModelPrice } from "../../manifests/registries.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import {
  type Amount,
  openSpendingOp,
  readSpending,
  reserveSpendingOp,
  type SpendingPlace,
  type SpendingRow,
  settleSpendingOp,
  spendingAt,
} from "../../storage/tables/budget-spending.ts";
import { leastOf, wantedOf } from "./shares.ts";

// Budgets of SVC_BUDGETS. Each model call first reserves its tokens and money in the store, in all budgets that apply to the run. The batch
// that stores the reply settles the reservation. The reservations of a killed process stay spent, so a budget is never exceeded.

/** Min output tokens for a model call, unless it asks for fewer. */
export const outputMin = 256;
/** Max attempts to reserve from rows that other runs change. */
const attemptsMax = 20;

/** Services for the budgets. `onSpent` is called with the spending of a budget whenever the run learns it. */
export interface SpendDeps {
  readonly store: TenantStore;
  readonly env: Env;
  readonly onSpent: (applied: AppliedBudget, row: SpendingRow) => void;
}

interface OpenReservation {
  /** Id of the reservation in the budget above; null for none. */
  readonly above: string | null;
  readonly reserved: Amount;
  readonly rows: readonly SpendingRow[];
}

/** The budgets of a tenant as a budget above that of the run. */
export class SpendBudgets implements ParentBudget {
  readonly binds = true;
  readonly #applied: readonly AppliedBudget[];
  readonly #above: ParentBudget | null;
  readonly #deps: SpendDeps;
  readonly #open = new Map<string, OpenReservation>();
  /** Settlements for the batch that stores the reply they belong to. */
  #settled: WriteOp[] = [];
  /** Periods whose rows this run knows to exist. */
  readonly #existing = new Set<string>();

  /** `above` is the budget that the run shares with other runs; null for none. */
  constructor(applied: readonly AppliedBudget[], above: ParentBudget | null, deps: SpendDeps) {
    this.#applied = applied;
    this.#above = above;
    this.#deps = deps;
  }

  async reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null> {
    const above = this.#above === null ? null : await this.#above.reserve(asked, price);
    if (this.#above !== null && (above === null || "limit" in above)) return above;
    const lent = above as BudgetReservation | null;
    let own: Reserved | Breach | null = null;
    try {
      const bounded =
        this.#above?.binds === true && lent !== null ? { ...asked, output_tokens: lent.output_tokens } : asked;
      own = await this.#reserve(bounded, price);
    } finally {
      if (lent !== null && (own === null || "limit" in own)) this.#above?.repay(lent.reservation_id, nothing);
    }
    if ("limit" in own) return own;
    const { wanted, rows } = own;
    const reservation_id = this.#deps.env.id();
    this.#open.set(reservation_id, { above: lent?.reservation_id ?? null, reserved: amountOf(wanted), rows });
    const least = this.#above?.binds === true && lent !== null ? leastOf(wanted, lent) : wanted;
    return { reservation_id, ...least };
  }

  repay(reservationId: string, used: BudgetUsed): void {
    const open = this.#open.get(reservationId);
    if (open === undefined) return;
    this.#open.delete(reservationId);
    if (open.above !== null) this.#above?.repay(open.above, used);
    const amount = amountOf(used);
    for (const [at, row] of open.rows.entries()) {
      this.#settled.push(settleSpendingOp(this.#deps.store, row, open.reserved, amount));
      const { settled_tokens, settled_usd } = row;
      const after = { settled_tokens: settled_tokens + amount.tokens, settled_usd: settled_usd + amount.usd };
      this.#deps.onSpent(this.#applied[at] as AppliedBudget, { ...row, ...after });
    }
  }

  async count(tool: string): Promise<Breach | null> {
    return this.#above === null ? null : this.#above.count(tool);
  }

  /** Returns the settlements since the last call, for the batch that stores the reply they belong to. */
  takeOps(): readonly WriteOp[] {
    const ops = this.#settled;
    if (ops.length > 0) this.#settled = [];
    return ops;
  }

  /** Reserves as much output as asked, or as much as the budgets still have. */
  async #reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<Reserved | Breach> {
    const unpriced = price === null && this.#applied.find(({ budget }) => budget.usd !== null);
    if (unpriced) return { limit: "budget", detail: `budget ${unpriced.budget.id}: the model has no price` };
    let { output_tokens } = asked;
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const wanted = wantedOf({ input_tokens: asked.input_tokens, output_tokens }, price);
      const rows = await this.#tryReserve(amountOf(wanted));
      if (rows !== null) return { wanted, rows };
      const most = await this.#mostOutput(asked.input_tokens, price);
      if (typeof most !== "number") return most;
      if (most.valueOf() < Math.min(outputMin, asked.output_tokens)) return this.#spentBreach();
      output_tokens = Math.min(asked.output_tokens, most);
    }
    return this.#spentBreach();
  }

  /** Returns the rows after the reservation; null if a budget does not have the amount. */
  async #tryReserve(amount: Amount): Promise<SpendingRow[] | null> {
    const { store, env } = this.#deps;
    const now = env.now();
    const ops: WriteOp[] = [];
    for (const applied of this.#applied) {
      const place = placeAt(applied, now);
      const key = `${place.budget_id} ${place.period_start}`;
      if (!this.#existing.has(key)) ops.push(openSpendingOp(store, place));
      this.#existing.add(key);
      ops.push(reserveSpendingOp(store, place, amount, limitOf(applied.budget)));
    }
    try {
      const found = await store.write(ops);
      const rows = found.flatMap((of) => of.map(readSpending));
      for (const [at, row] of rows.entries()) this.#deps.onSpent(this.#applied[at] as AppliedBudget, row);
      return rows;
    } catch (error) {
      // The batch was not applied, so its rows may not exist.
      this.#existing.clear();
      if (SvcError.from(error).code === "conflict") return null;
      throw error;
    }
  }

  /** Returns the output tokens that all budgets have left after the input. */
  async #mostOutput(input: number, price: ModelPrice | null): Promise<number | Breach> {
    const { store, env } = this.#deps;
    let most = Number.MAX_SAFE_INTEGER;
    for (const applied of this.#applied) {
      const { budget } = applied;
      const row = await spendingAt(store, placeAt(applied, env.now()));
      const left = leftOf(applied, row);
      const byTokens = budget.tokens === null ? most : left.tokens - input;
      const spent = wantedOf({ input_tokens: input, output_tokens: 0 }, price).cost_usd;
      const money = left.usd - spent;
      const rate = price?.output ?? 0;
      const byMoney =
        budget.usd === null ? most : money < 0 ? -1 : rate === 0 ? most : Math.floor((money * 1e6) / rate);
      most = Math.min(most, byTokens, byMoney);
      if (most < 1) return spentBreach(applied);
    }
    return most;
  }

  #spentBreach(): Breach {
    return spentBreach(this.#applied[0] as AppliedBudget);
  }
}

interface Reserved {
  readonly wanted: BudgetUsed;
  readonly rows: readonly SpendingRow[];
}

const nothing: BudgetUsed = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };

/** Returns the row of a budget in the period of this time. */
export function placeAt({ budget, subject }: AppliedBudget, now: number): SpendingPlace {
  return { budget_id: budget.id, period_start: periodAt(budget, now).start, subject };
}

/** Returns what a budget has left. */
export function leftOf({ budget }: AppliedBudget, row: SpendingRow | undefined): Amount {
  const limit = limitOf(budget);
  return { tokens: limit.tokens - (row?.tokens ?? 0), usd: limit.usd - (row?.usd ?? 0) };
}

function amountOf({ input_tokens, output_tokens, cost_usd }: BudgetUsed): Amount {
  return { tokens: input_tokens + output_tokens, usd: cost_usd };
}

function spentBreach({ budget }: AppliedBudget): Breach {
  return { limit: "budget", detail: `budget ${budget.id} is spent for this ${budget.period}` };
}
