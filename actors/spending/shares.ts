import type { BudgetUsed } from "../../bus/protocol/task.ts";
import type { Breach } from "../../governance/budget.ts";
import type { ModelPrice } from "../../manifests/registries.ts";
import type { BudgetSharers, RunBudgetRow } from "../../storage/tables/run-budgets.ts";

// The share of each run in a shared budget, and arithmetic on amounts.

/**
 * Output tokens that a model call always gets while the budget has them. Above that, the budget is divided among the runs that
 * share it.
 */
const outputFair = 4_096;

/** The zero amount. */
export const nothing: BudgetUsed = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };

/** The budget has a cost limit, and the model has no price. */
export const unpriced: Breach = { limit: "max_cost_usd", detail: "max_cost_usd: the model of the task has no price" };

/** A stored budget with the runs that share it. */
export type Standing = RunBudgetRow & BudgetSharers;

/** Returns the largest amount up to `wanted` that all budgets allow one run, or the limit that allows none, and the scarcest budget. */
export function mostOf(
  rows: readonly Standing[],
  { input_tokens, output_tokens: wanted }: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
  price: ModelPrice | null,
): { readonly most: BudgetUsed | Breach; readonly scarcest: Standing } {
  let output_tokens = wanted;
  let scarcest = rows[0] as Standing;
  const full = (limit: Breach["limit"], row: Standing & Partial<Record<Breach["limit"], number>>) => ({
    most: breachOf(limit, row[limit] ?? 0),
    scarcest: row,
  });
  for (const row of rows) {
    if (input_tokens > row.max_input_tokens - row.input_tokens) return full("max_input_tokens", row);
    const left = row.max_output_tokens - row.output_tokens;
    if (left < 1) return full("max_output_tokens", row);
    const payable = payableOutput(row.max_cost_usd - row.cost_usd, input_tokens, price);
    if (payable < 1) return full("max_cost_usd", row);
    const most = Math.min(left, payable);
    const fair = Math.min(most, Math.max(outputFair, Math.floor(most / row.sharers)));
    if (fair >= output_tokens) continue;
    output_tokens = fair;
    scarcest = row;
  }
  return { most: wantedOf({ input_tokens, output_tokens }, price), scarcest };
}

/** Returns the output tokens that the money covers after the input. */
function payableOutput(money: number, input: number, price: ModelPrice | null): number {
  const left = money - costOf(input, 0, price);
  if (price === null || (price.output === 0 && left >= 0)) return Number.MAX_SAFE_INTEGER;
  return price.output === 0 ? 0 : Math.floor((left * 1e6) / price.output);
}

/** Returns the amount to reserve for a call: its tokens and their highest cost. */
export function wantedOf(
  { input_tokens, output_tokens }: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
  price: ModelPrice | null,
): BudgetUsed {
  return { input_tokens, output_tokens, cost_usd: costOf(input_tokens, output_tokens, price) };
}

/** Uses the highest input rate, because cached input may cost more than plain input. */
function costOf(input: number, output: number, price: ModelPrice | null): number {
  if (price === null) return 0;
  return (input * Math.max(price.input, price.cache_read, price.cache_write) + output * price.output) / 1e6;
}

/** Returns the limit that has rejected a tool call. */
export function callBreach(rows: readonly RunBudgetRow[], isTask: boolean): Breach {
  const full = rows.find(({ tool_calls, max_tool_calls }) => tool_calls >= max_tool_calls);
  const spread = rows.find(({ hops, max_hops }) => hops >= max_hops);
  if (full === undefined && isTask && spread !== undefined) return breachOf("max_peer_hops", spread.max_hops);
  return breachOf("max_tool_calls", full?.max_tool_calls ?? 0);
}

function breachOf(limit: Breach["limit"], most: number): Breach {
  return { limit, detail: `${limit} (${most}) reached by the run and its tasks` };
}

/** Returns the amount that both budgets have reserved. */
export function leastOf({ input_tokens, output_tokens, cost_usd }: BudgetUsed, other: BudgetUsed): BudgetUsed {
  return {
    input_tokens,
    output_tokens: Math.min(output_tokens, other.output_tokens),
    cost_usd: Math.min(cost_usd, other.cost_usd),
  };
}

/** Returns the sum of two amounts. */
export function sumOf(one: BudgetUsed, other: BudgetUsed): BudgetUsed {
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    cost_usd: one.cost_usd + other.cost_usd,
  };
}
