import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import { RunBudget } from "../../../governance/budget.ts";
import { mayDelegate } from "../../../manifests/sections/delegation.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { leaveBudgetOps } from "../../../storage/tables/run-budgets.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import type { DurableRun } from "../spec/durable-run.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { CallRows, type KnownPrefixes } from "./call-rows.ts";
import { parentBudgetOf } from "./parent-budget.ts";
import { TreeBudget } from "./tree-budget.ts";
import { UsageMeter } from "./usage-meter.ts";

/** The parts of a run that its billing needs. `onGone` is called when the parent run or the thread no longer exists. */
interface BillingDeps {
  readonly store: TenantStore;
  readonly deps: { readonly env: Env; readonly bus: Bus; readonly prefixes: KnownPrefixes };
  readonly cancellation: Cancellation;
  readonly onGone: () => void;
}

/**
 * Limits, reservations and usage of one run, shared by all its agents. Model calls and tool calls reserve here first. The batch
 * that stores their result also writes the usage rows.
 */
export class Billing {
  /** The limits of the run. */
  readonly budget: RunBudget;
  /** The budget that the run shares with its child runs; null for a run that has none and is no background task. */
  readonly tree: TreeBudget | null;
  /** Token usage, and its rows. */
  readonly meter: UsageMeter;
  /** Records of finished model calls that are not stored yet. */
  readonly calls = new CallRows();
  readonly #spec: RunSpec;
  readonly #durableRun: DurableRun | null;
  readonly #of: BillingDeps;

  constructor(spec: RunSpec, durableRun: DurableRun | null, of: BillingDeps) {
    this.#spec = spec;
    this.#durableRun = durableRun;
    this.#of = of;
    const { env } = of.deps;
    const spent = spec.resumed?.spent ?? null;
    const toMonotonic = env.monotonic() - env.now();
    const startedAt = durableRun?.startedAt ?? spec.startedAt + toMonotonic;
    const { background, durable, deadline = Number.POSITIVE_INFINITY } = spec.parent ?? {};
    // A durable run is limited by the time that it is active.
    const own = background ?? durable;
    const latest = own === undefined ? deadline + toMonotonic : startedAt + own.active_ms;
    this.tree = this.#treeBudget();
    this.budget = new RunBudget(spec.agent.limits, startedAt, spent, this.tree ?? this.#parent(), latest);
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

  /** Returns the budget of the parent run, which is asked by message; null if no parent waits for this run. */
  #parent() {
    const { parent } = this.#spec;
    const { store, deps, cancellation, onGone } = this.#of;
    if (parent === null || parent.background !== undefined) return null;
    return parentBudgetOf(parent, store, deps.bus, cancellation, onGone);
  }

  #treeBudget(): TreeBudget | null {
    const { parent, thread_suffix, run_id, thread_key, resumed, agent, isShared } = this.#spec;
    const background = parent?.background;
    if (background === undefined && (thread_suffix === null || !mayDelegate(agent))) return null;
    const spender = {
      runId: run_id,
      rootKey: parent?.root_key ?? thread_key,
      budgets: background?.budgets ?? (isShared ? [run_id] : null),
      isResumed: resumed !== null,
      isPriced: background?.priced ?? false,
    };
    const { store, deps, cancellation, onGone } = this.#of;
    return new TreeBudget(spender, this.#parent(), { store, env: deps.env, cancellation, onGone });
  }
}
