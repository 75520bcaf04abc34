import { type ParentBudget, RunBudget } from "../../../governance/budget.ts";
import type { Spending } from "../../../governance/spending.ts";
import { mayDelegate } from "../../../manifests/sections/delegation.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { leaveBudgetOps } from "../../../storage/tables/run-budgets.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { SpendBudgets } from "../../spending/spend-budgets.ts";
import { SpendWarning, type SpendWarningDeps } from "../../spending/spend-warning.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { CallRows, type KnownPrefixes } from "./call-rows.ts";
import { resumedUnder, sharedOf } from "./parent-run.ts";
import { TreeBudget } from "./tree-budget.ts";
import { UsageMeter } from "./usage-meter.ts";

/** The parts of a run that its billing needs. `onGone` is called when the parent run or the thread no longer exists. */
interface BillingDeps {
  readonly store: TenantStore;
  readonly deps: SpendWarningDeps & { readonly prefixes: KnownPrefixes; readonly spending: Spending };
  readonly cancellation: Cancellation;
  readonly onGone: () => void;
  /** The part of the limits that was used before the run was accepted; null for none. */
  readonly spentBefore: RunSpent | null;
}

/**
 * Limits, reservations and usage of one run, shared by all its agents. Model calls and tool calls reserve here first. The batch
 * that stores their result also writes the usage rows.
 */
export class Billing {
  /** The limits of the run. */
  readonly budget: RunBudget;
  /** The budget that the run shares with other runs; null for a run that is no task and has none. */
  readonly tree: TreeBudget | null;
  /** Token usage, and its rows. */
  readonly meter: UsageMeter;
  /** Records of finished model calls that are not stored yet. */
  readonly calls = new CallRows();
  readonly #spec: RunSpec;
  readonly #durableRun: DurableRun | null;
  /** The budgets of SVC_BUDGETS that apply to the run; null for none. */
  readonly #spend: SpendBudgets | null;
  readonly #of: BillingDeps;

  constructor(spec: RunSpec, durableRun: DurableRun | null, of: BillingDeps) {
    this.#spec = spec;
    this.#durableRun = durableRun;
    this.#of = of;
    const { env } = of.deps;
    const spent = spec.resumed === null ? of.spentBefore : spec.resumed.spent;
    const toMonotonic = env.monotonic() - env.now();
    const startedAt = durableRun?.startedAt ?? spec.startedAt + toMonotonic;
    const { background, durable, deadline = Number.POSITIVE_INFINITY } = spec.parent ?? {};
    // A durable run is limited by the time that it is active.
    const own = background ?? durable;
    const latest = own === undefined ? deadline + toMonotonic : startedAt + own.active_ms;
    this.tree = this.#treeBudget();
    this.#spend = this.#spendBudgets(this.tree);
    const parentBudget = this.#spend ?? this.tree;
    this.budget = new RunBudget(spec.agent.limits, startedAt, spent, parentBudget, latest);
    this.meter = new UsageMeter(spent?.usage ?? null);
  }

  /** The time limit of the run in epoch milliseconds, by the current wall clock. */
  get deadline(): number {
    const { env } = this.#of.deps;
    return Math.round(env.now() + this.budget.deadline - env.monotonic());
  }

  /** Statements to store with the model's answer: call records, usage rows, and the share of a shared budget. */
  ops(): WriteOp[] {
    // The log rejects the batch of an interrupted run, and the statements would be lost with it.
    if (this.#durableRun?.isCut) return [];
    return [...this.calls.takeOps(this.#of.store, this.#of.deps.prefixes), ...this.usageOps()];
  }

  /** Returns the same without call records: a repeated step calls its model again and records that call. */
  usageOps(): WriteOp[] {
    const rows = this.meter.takeOps(this.#of.store);
    if (this.#spend !== null) rows.push(...this.#spend.takeOps());
    return this.tree === null ? rows : [...rows, ...this.tree.takeOps()];
  }

  /** Returns the statements of the run's last batch. They settle the rest, and remove the run from its budgets. */
  endOps(): WriteOp[] {
    const left = this.tree?.lastOps() ?? [];
    return this.tree?.isShared ? [...left, ...leaveBudgetOps(this.#of.store, this.#spec.run_id)] : [...left];
  }

  /** Marks the statements that were returned last as durable. */
  written(): void {
    this.calls.written(this.#of.store, this.#of.deps.prefixes);
  }

  #spendBudgets(above: ParentBudget | null): SpendBudgets | null {
    const { principal, agent } = this.#spec;
    const { store, deps } = this.#of;
    const payer = { sub: principal.sub, behalf: principal.on_behalf_of?.sub };
    const applied = deps.spending.applied(store.tenantId, payer, agent.name, deps.env.now());
    if (applied.length === 0) return null;
    const warning = new SpendWarning(store, deps);
    return new SpendBudgets(applied, above, { store, env: deps.env, onSpent: (of, row) => warning.look(of, row) });
  }

  #treeBudget(): TreeBudget | null {
    const { parent, workflow, thread_suffix, run_id, thread_key, resumed, agent, isShared } = this.#spec;
    const shared = sharedOf({ parent, workflow });
    const delegates = thread_suffix !== null && mayDelegate(agent);
    if (shared === null && !delegates) return null;
    // The first batch of a task that may start tasks creates its own budget. Any other run creates its budget with its first task.
    const hasOwn = delegates && (isShared || (shared !== null && resumed === null));
    const budgets = [...(shared?.budgets ?? []), ...(hasOwn ? [run_id] : [])];
    const spender = {
      runId: run_id,
      rootKey: parent?.root_key ?? thread_key,
      budgets: budgets.length === 0 ? null : budgets,
      isResumed: resumed !== null,
      isPriced: shared?.priced ?? false,
      workflowRunId: workflow?.shared === undefined ? null : workflow.run_id,
    };
    const { store, deps, cancellation, onGone } = this.#of;
    const above = parent?.shared && {
      runId: parent.run_id,
      resumed: () => resumedUnder(parent, store, deps.bus, cancellation),
    };
    return new TreeBudget(spender, { store, env: deps.env, cancellation, onGone, above: above ?? null });
  }
}
