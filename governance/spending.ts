import type { RuntimeKeyRow } from "../storage/tables/runtime-keys.ts";
import type { Budget } from "./settings/budgets.ts";
import type { CallerBudget } from "./settings/settings.ts";

// Which budgets of SVC_BUDGETS apply to a run, and when their periods begin and end.

/** A budget that a run spends from. */
export interface AppliedBudget {
  readonly budget: Budget;
  /** The caller, for a budget for each caller; empty for other budgets. */
  readonly subject: string;
}

/** A period of a budget, in epoch milliseconds; the end is not included. */
export interface Period {
  readonly start: number;
  readonly end: number;
}

/** The share of a budget after which its owner is warned. */
export const warnedShare = 0.8;

const dayMs = 86_400_000;
const none: readonly AppliedBudget[] = [];

/** Finds the keys made at run time whose budgets a subject spends from. */
interface PayingKeys {
  payingKeys(tenantId: string, sub: string, now: number): readonly RuntimeKeyRow[];
}

/** The budgets of all tenants. */
export class Spending {
  readonly #byTenant = new Map<string, Budget[]>();
  readonly #access: PayingKeys;
  readonly #ofCallers: readonly CallerBudget[];

  constructor(budgets: readonly Budget[], access: PayingKeys, ofCallers: readonly CallerBudget[] = []) {
    this.#access = access;
    this.#ofCallers = ofCallers;
    for (const budget of budgets) {
      const own = this.#byTenant.get(budget.tenant_id) ?? [];
      own.push(budget);
      this.#byTenant.set(budget.tenant_id, own);
    }
    // A fixed order, so that concurrent batches do not deadlock.
    for (const own of this.#byTenant.values()) own.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Returns the budgets that a run of this caller and manifest spends from. `behalf` is the author of a job, whose keys pay too. */
  applied(
    tenantId: string,
    { sub, behalf }: { readonly sub: string; readonly behalf?: string | undefined },
    manifest: string,
    now: number,
  ): readonly AppliedBudget[] {
    const subs = behalf === undefined ? [sub] : [sub, behalf];
    const paying = new Set(subs.flatMap((one) => this.#access.payingKeys(tenantId, one, now)));
    const ofKeys = [...paying].map((row) => ({ budget: keyBudget(tenantId, row), subject: "" }));
    const configured = (this.#byTenant.get(tenantId) ?? []).flatMap((budget) => {
      if (budget.manifest !== null && budget.manifest !== manifest) return [];
      if (budget.principal === "*") return [{ budget, subject: sub }];
      return budget.principal === null || budget.principal === sub ? [{ budget, subject: "" }] : [];
    });
    const found = [...configured, ...ofKeys];
    if (found.length > 0) return found;
    const shared = this.#ofCallers.filter((one) => sub.startsWith(one.sub));
    return shared.length === 0 ? none : shared.map((one) => ({ budget: callerBudget(tenantId, one), subject: "" }));
  }
}

/** Returns the budget of callers of a plugin, as an entry of SVC_BUDGETS. No entry can have its id. */
export function callerBudget(tenant_id: string, { id, period, tokens }: CallerBudget): Budget {
  return { id, tenant_id, principal: null, manifest: null, period, tokens, usd: null, webhooks: [] };
}

/** Returns the budget of a key that was made at run time, as an entry of SVC_BUDGETS. No entry can have its id. */
export function keyBudget(tenant_id: string, { id, sub, budget }: RuntimeKeyRow): Budget {
  const { period, tokens, usd } = budget ?? { period: "month", tokens: null, usd: null };
  return { id: `key:${id}`, tenant_id, principal: sub, manifest: null, period, tokens, usd, webhooks: [] };
}

/** Returns the period of a budget at a time. */
export function periodAt({ period }: Pick<Budget, "period">, now: number): Period {
  if (period === "day") {
    const start = Math.floor(now / dayMs) * dayMs;
    return { start, end: start + dayMs };
  }
  const date = new Date(now);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
}

/** Returns the limits of a budget as amounts that the store compares. */
export function limitOf({ tokens, usd }: Pick<Budget, "tokens" | "usd">): { tokens: number; usd: number } {
  return { tokens: tokens ?? Number.MAX_SAFE_INTEGER, usd: usd ?? 1e15 };
}
