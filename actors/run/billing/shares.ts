import type { BudgetUsed } from "../../../bus/protocol/run.ts";
import type { Breach } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";
import type { RunBudgetRow } from "../../../storage/tables/run-budgets.ts";

// What each of those who spend a budget may have of it, and how such amounts are reckoned with.

/** Output that a model call gets as far as there is any; of more than that each of those who spend gets its part. */
const outputFair = 4_096;

/** Nothing is used, or set aside. */
export const nothing: BudgetUsed = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };

/** Money is bounded, and what a call costs is not known. */
export const unpriced: Breach = { limit: "max_cost_usd", detail: "max_cost_usd: the model of the task has no price" };

/** A budget, how many spend it, and how many others have something of it set aside. */
export type Standing = RunBudgetRow & { readonly sharers: number; readonly holding: number };

/** What all of these budgets have for one of those who spend them, up to what is wanted; and the one that has least. */
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

/** Output that can be paid beside the input. */
function payableOutput(money: number, input: number, price: ModelPrice | null): number {
  const left = money - costOf(input, 0, price);
  if (price === null || (price.output === 0 && left >= 0)) return Number.MAX_SAFE_INTEGER;
  return price.output === 0 ? 0 : Math.floor((left * 1e6) / price.output);
}

/** What is set aside for a call: its tokens, and what those cost at most. */
export function wantedOf(
  { input_tokens, output_tokens }: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
  price: ModelPrice | null,
): BudgetUsed {
  return { input_tokens, output_tokens, cost_usd: costOf(input_tokens, output_tokens, price) };
}

/** Whatever a provider reads from its cache or writes there, it will not cost more. */
function costOf(input: number, output: number, price: ModelPrice | null): number {
  if (price === null) return 0;
  return (input * Math.max(price.input, price.cache_read, price.cache_write) + output * price.output) / 1e6;
}

/** Which bound a call has met that was not counted. */
export function callBreach(rows: readonly RunBudgetRow[], isTask: boolean): Breach {
  const full = rows.find(({ tool_calls, max_tool_calls }) => tool_calls >= max_tool_calls);
  const spread = rows.find(({ hops, max_hops }) => hops >= max_hops);
  if (full === undefined && isTask && spread !== undefined) return breachOf("max_peer_hops", spread.max_hops);
  return breachOf("max_tool_calls", full?.max_tool_calls ?? 0);
}

function breachOf(limit: Breach["limit"], most: number): Breach {
  return { limit, detail: `${limit} (${most}) reached by the run and its tasks` };
}

/** What both lend. */
export function leastOf({ input_tokens, output_tokens, cost_usd }: BudgetUsed, other: BudgetUsed): BudgetUsed {
  return {
    input_tokens,
    output_tokens: Math.min(output_tokens, other.output_tokens),
    cost_usd: Math.min(cost_usd, other.cost_usd),
  };
}

/** Both together. */
export function sumOf(one: BudgetUsed, other: BudgetUsed): BudgetUsed {
  return {
    input_tokens: one.input_tokens + other.input_tokens,
    output_tokens: one.output_tokens + other.output_tokens,
    cost_usd: one.cost_usd + other.cost_usd,
  };
}

/** What is left of one without the other. */
export function minus(one: BudgetUsed, other: BudgetUsed): BudgetUsed {
  return {
    input_tokens: one.input_tokens - other.input_tokens,
    output_tokens: one.output_tokens - other.output_tokens,
    cost_usd: one.cost_usd - other.cost_usd,
  };
}
