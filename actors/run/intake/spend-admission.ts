import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { estimatedTokens } from "../../../governance/output-count.ts";
import { type AppliedBudget, periodAt } from "../../../governance/spending.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type Amount, type SpendingRow, spendingAt } from "../../../storage/tables/budget-spending.ts";
import { messageLength } from "../../log/message.ts";
import { wantedOf } from "../../spending/shares.ts";
import { leftOf, outputMin, placeAt } from "../../spending/spend-budgets.ts";
import { highestPrice } from "../billing/usage-meter.ts";
import type { RunDeps } from "../context/deps.ts";
import { toolListJson } from "../spec/prompt-prefix.ts";
import type { RunStart } from "../spec/run-spec.ts";

/** A budget that a turn will spend from, and its spending; no row if it has none. */
interface Standing {
  readonly applied: AppliedBudget;
  readonly row: SpendingRow | undefined;
}

/**
 * Returns the budgets of a turn before its first model call; null without any. Refuses with budget_exceeded if one is spent. Tasks and
 * single calls of tools are not refused.
 */
export async function spendingOf(
  { principal, parent, call }: Pick<SubmitTurn, "principal" | "parent" | "call">,
  agent: CompiledAgent,
  store: TenantStore,
  { spending, env, access, readAccess }: Pick<RunDeps, "spending" | "env" | "access" | "readAccess">,
): Promise<readonly Standing[] | null> {
  // A key that another process has just made may be unknown here, and with it its budget.
  if (principal.key !== undefined && !access.knows(store.tenantId, principal.key.id)) await readAccess();
  const now = env.now();
  const payer = { sub: principal.sub, behalf: principal.on_behalf_of?.sub };
  const budgets = spending.applied(store.tenantId, payer, agent.name, now);
  if (budgets.length === 0 || parent !== undefined || call !== undefined) return null;
  const standings = await Promise.all(
    budgets.map(async (applied) => ({ applied, row: await spendingAt(store, placeAt(applied, now)) })),
  );
  refuseWithout({ tokens: 1, usd: 0 }, standings, now);
  return standings;
}

/** Refuses with unpriced_model and budget_exceeded if the first model call of a turn cannot be paid. */
export function admitFirstCall(standings: readonly Standing[], { spec, branch }: RunStart, now: number): void {
  const price = highestPrice(spec, spec.routes);
  const needsPrice = standings.some(({ applied }) => applied.budget.usd !== null);
  if (needsPrice && price === null) throw new SvcError("unpriced_model", { subject: spec.routes[0]?.id ?? "" });
  const frame = spec.systemPrompt.length + (toolListJson(spec.agent)?.length ?? 0);
  const characters = branch.reduce((sum, message) => sum + messageLength(message), frame);
  const output_tokens = Math.min(outputMin, spec.max_tokens ?? outputMin);
  const least = wantedOf({ input_tokens: estimatedTokens(characters), output_tokens }, price);
  refuseWithout({ tokens: least.input_tokens + output_tokens, usd: least.cost_usd }, standings, now);
}

function refuseWithout(needed: Amount, standings: readonly Standing[], now: number): void {
  for (const { applied, row } of standings) {
    const { budget } = applied;
    const left = leftOf(applied, row);
    const isSpent = (name: "tokens" | "usd") =>
      budget[name] !== null && (left[name] < needed[name] || (name === "usd" && left.usd <= 0));
    const unit = isSpent("tokens") ? "tokens" : isSpent("usd") ? "usd" : null;
    if (unit === null) continue;
    const resets_at = periodAt(budget, now).end;
    throw new SvcError("budget_exceeded", {
      subject: budget.id,
      detail: {
        error: "budget_exceeded",
        ...{ budget: budget.id, unit, limit: budget[unit], spent: row?.[unit] ?? 0, resets_at },
      },
      retryAfterSeconds: Math.max(1, Math.ceil((resets_at - now) / 1_000)),
    });
  }
}
