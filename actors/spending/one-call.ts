import type { BudgetReservation, BudgetUsed } from "../../bus/protocol/task.ts";
import type { Breach } from "../../governance/budget.ts";
import type { Spending } from "../../governance/spending.ts";
import type { ModelPrice } from "../../manifests/registries.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { SpendBudgets } from "./spend-budgets.ts";
import { SpendWarning, type SpendWarningDeps } from "./spend-warning.ts";

/** The payer of a model call outside of a run: empty for no caller, and for no manifest. */
export interface Payer {
  readonly subject: string;
  readonly manifest: string;
}

/** The budgets of SVC_BUDGETS for model calls outside of a run. */
export interface CallSpending extends SpendWarningDeps {
  readonly spending: Spending;
}

/** Returns the budgets that pay for a call; null for none. */
export function spendOf(store: TenantStore, payer: Payer, deps: CallSpending): SpendBudgets | null {
  const applied = deps.spending.applied(store.tenantId, { sub: payer.subject }, payer.manifest, deps.env.now());
  if (applied.length === 0) return null;
  const warning = new SpendWarning(store, deps);
  return new SpendBudgets(applied, null, { store, env: deps.env, onSpent: (of, row) => warning.look(of, row) });
}

/** A call without output, such as that for vectors, which reserves before it starts. */
export class PaidCall {
  readonly #budgets: SpendBudgets | null;
  #reservation: BudgetReservation | null = null;

  constructor(budgets: SpendBudgets | null) {
    this.#budgets = budgets;
  }

  /** Reserves the input of the call. Returns the limit that forbids it, or null. */
  async reserve(input_tokens: number, price: ModelPrice | null): Promise<Breach | null> {
    if (this.#budgets === null) return null;
    const reserved = await this.#budgets.reserve({ input_tokens, output_tokens: 0 }, price);
    if (reserved === null || "limit" in reserved) return reserved;
    this.#reservation = reserved;
    return null;
  }

  /** Returns the statements that settle the reservation. Empty after the first call. */
  settled(used: BudgetUsed): readonly WriteOp[] {
    if (this.#budgets === null || this.#reservation === null) return [];
    this.#budgets.repay(this.#reservation.reservation_id, used);
    this.#reservation = null;
    return this.#budgets.takeOps();
  }
}
