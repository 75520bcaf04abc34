import { createHash } from "node:crypto";
import { deliveryAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import { auditOp } from "../../governance/audit.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { openEndpoint } from "../../governance/settings/webhook-endpoints.ts";
import { type AppliedBudget, periodAt, warnedShare } from "../../governance/spending.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type SpendingRow, warnSpendingOp } from "../../storage/tables/budget-spending.ts";
import { outboxOps } from "../../storage/tables/deliveries.ts";

/** Services for the warning. */
export interface SpendWarningDeps {
  readonly env: Env;
  readonly bus: Bus;
  readonly mask: SecretMask;
  readonly settings: Pick<Settings, "webhookEndpoints">;
  readonly log: { warn(fields: object, words: string): void };
}

/** Warns once in each period when most of a budget is spent: an audit row, and a webhook to the endpoints of the budget. */
export class SpendWarning {
  readonly #store: TenantStore;
  readonly #deps: SpendWarningDeps;
  /** Budgets that this run has warned of, or that were warned of before. */
  readonly #warned = new Set<string>();

  constructor(store: TenantStore, deps: SpendWarningDeps) {
    this.#store = store;
    this.#deps = deps;
  }

  /** Looks at the spending of a budget. Only calls that have ended count: a reservation is usually larger than its call. */
  look({ budget, subject }: AppliedBudget, row: SpendingRow): void {
    const unit = unitOf(budget, row);
    const key = `${budget.id} ${row.period_start}`;
    if (unit === null || this.#warned.has(key)) return;
    this.#warned.add(key);
    if (row.warned === 0) void this.#warn({ budget, subject }, row, unit);
  }

  async #warn({ budget, subject }: AppliedBudget, row: SpendingRow, unit: "tokens" | "usd"): Promise<void> {
    const { settings, bus, log } = this.#deps;
    const { tenantId } = this.#store;
    const principal = subject === "" ? budget.principal : subject;
    const facts = {
      ...{ budget: budget.id, principal, manifest: budget.manifest, unit, limit: budget[unit] },
      spent: unit === "tokens" ? row.settled_tokens : row.settled_usd,
      resets_at: periodAt(budget, row.period_start).end,
    };
    const body = JSON.stringify({ type: "budget.warning", tenant_id: tenantId, ...facts });
    const of = createHash("sha256").update(subject).digest("hex").slice(0, 16);
    const source = `budget_${budget.id}_${row.period_start}_${of}`;
    const endpoints = budget.webhooks.filter((id) => openEndpoint(settings.webhookEndpoints, id, tenantId) !== null);
    const event = { event_type: "budget_warning", status: "ok", manifest_id: budget.manifest ?? "" } as const;
    try {
      await this.#store.write([
        warnSpendingOp(this.#store, row),
        auditOp(this.#store, this.#deps, { ...event, principal_subj: principal ?? "", payload: facts }),
        ...outboxOps(this.#store, { source, type: "budget.warning", body, endpoints }),
      ]);
    } catch (error) {
      // With a conflict, another run has warned. After another failure the next run tries again.
      if (SvcError.from(error).code !== "conflict")
        log.warn({ err: error, budget: budget.id }, "a warning of a budget could not be stored");
      return;
    }
    log.warn({ tenant_id: tenantId, budget: budget.id, unit }, "a budget is spent to 80 percent");
    tellNews(bus, tenantId, () => ({ kind: "budget", budget: budget.id }));
    for (const id of endpoints) bus.tell(deliveryAddress(tenantId, id), "wake", {});
  }
}

/** Returns the unit that is spent to the share of a warning; null for none. */
function unitOf({ tokens, usd }: AppliedBudget["budget"], row: SpendingRow): "tokens" | "usd" | null {
  if (tokens !== null && row.settled_tokens >= tokens * warnedShare) return "tokens";
  return usd !== null && row.settled_usd >= usd * warnedShare ? "usd" : null;
}
