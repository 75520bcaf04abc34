import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { BudgetReservation, BudgetUsed } from "../../../bus/protocol/task.ts";
import type { Breach, ParentBudget, RunBudget } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";
import { taskToolName } from "../../../manifests/sections/delegation.ts";
import type { RunLimits } from "../../../manifests/sections/limits.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  countCallOps,
  leaveBudgetOps,
  openBudgetOps,
  type RunBudgetRow,
  reserveOps,
  resetShareOps,
  runBudgetById,
  type Settlement,
  settleOps,
  sharersOf,
} from "../../../storage/tables/run-budgets.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { callBreach, mostOf, nothing, type Standing, sumOf, unpriced, wantedOf } from "../../spending/shares.ts";
import { patiently } from "./passing.ts";

/** Min output tokens for a model call. With fewer, the call waits for other reservations to be settled. */
const outputMin = 256;
/** Interval in milliseconds between checks for settled reservations of other runs. */
const lookMs = 200;
/** Max attempts to reserve from a row that concurrent runs change. */
const attemptsMax = 50;

/** The spending run, and the budgets that it spends from. */
export interface Spender {
  readonly runId: string;
  /** Key of the thread in which the root run started. */
  readonly rootKey: number;
  /** Ids of the stored budgets, outermost first; null while the run shares no stored budget. */
  readonly budgets: readonly string[] | null;
  /** True for a resumed run, maybe in another process. */
  readonly isResumed: boolean;
  /** True if a budget above limits the cost: a model without a price may then use nothing. */
  readonly isPriced: boolean;
  /** The run of a workflow whose budget is the outermost one; null for none. */
  readonly workflowRunId: string | null;
}

/** Services for the budget. `onGone` is called when the thread was deleted, or the run above no longer waits for this one. */
export interface TreeDeps {
  readonly store: TenantStore;
  readonly env: Env;
  readonly cancellation: Cancellation;
  readonly onGone: () => void;
  /** The run that waits for this task; null for none. `resumed` tells it that the task works again; false if it is gone. */
  readonly above: { readonly runId: string; readonly resumed: () => Promise<boolean> } | null;
}

interface OpenReservation {
  readonly lent: BudgetUsed;
  /** True if the reservation is stored. */
  isStored: boolean;
}

/**
 * The budget of a run with tasks, or of a task. Reservations of a run are in memory until its first task. From then on the budget is a row,
 * which each run of the tree updates before its calls (decision 99). A task updates the rows of all runs above it in one batch.
 */
export class TreeBudget implements ParentBudget {
  readonly #spender: Spender;
  readonly #deps: TreeDeps;
  readonly #reservations = new Map<string, OpenReservation>();
  #budgets: readonly string[] | null;
  #sharing: Promise<void> | null = null;
  #isSharing = false;
  /** True if the write that creates the stored budget had an unknown outcome. */
  #mayBeOpen = false;
  /** The release of reservations that an earlier process may have left; null before it starts. */
  #reset: Promise<void> | null = null;
  #isDirty: boolean;
  /** Settlements for the batch that stores the reply they belong to. */
  #settled: Settlement | null = null;
  /** Settlements of a separate batch that is being written, or whose outcome is unknown. */
  #said: Settlement | null = null;
  /** Number of that separate batch. It starts at the current time, above the numbers of earlier processes, and grows by one per batch. */
  #number: number;
  /** The write in progress; null for none. */
  #saying: Promise<unknown> | null = null;
  /** The notice to the parent run that this task has resumed; false if that run is gone, null before the notice. */
  #told: Promise<boolean> | null;
  #workflowBreach: string | null = null;

  constructor(spender: Spender, deps: TreeDeps) {
    this.#spender = spender;
    this.#told = spender.isResumed && deps.above !== null ? null : Promise.resolve(true);
    this.#deps = deps;
    this.#budgets = spender.budgets;
    this.#isDirty = spender.isResumed && spender.budgets !== null;
    this.#number = deps.env.now();
  }

  get binds(): boolean {
    return this.#budgets !== null;
  }

  /** True if the budget is stored. */
  get isShared(): boolean {
    return this.#budgets !== null;
  }

  /** Why the budget of the workflow could not pay a call of this run; null if it paid all. */
  get workflowBreach(): string | null {
    return this.#workflowBreach;
  }

  /** Moves the budget into the store, where all its runs find it. Returns the budgets that a task spends from, outermost first. */
  async share(budget: RunBudget, limits: RunLimits): Promise<readonly string[]> {
    if (this.#budgets === null || this.#isSharing) {
      this.#sharing ??= this.#share(budget, limits);
      await this.#sharing;
    }
    return this.#budgets ?? none;
  }

  reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null> {
    return this.#patiently(() => this.#lent(asked, price));
  }

  async #lent(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null> {
    if (this.#spender.isPriced && price === null) {
      if (this.#spender.workflowRunId !== null)
        this.#workflowBreach = "a run with max_cost_usd cannot call a model without a price";
      return unpriced;
    }
    if (!(await this.#isExpected())) return null;
    const budgets = this.#budgets;
    const lent = budgets === null ? wantedOf(asked, price) : await this.#reserve(budgets, asked, price);
    if (lent === null || "limit" in lent) return lent;
    const reservation_id = this.#deps.env.id();
    this.#reservations.set(reservation_id, { lent, isStored: budgets !== null });
    return { reservation_id, ...lent };
  }

  repay(reservationId: string, used: BudgetUsed): void {
    const reservation = this.#reservations.get(reservationId);
    if (reservation === undefined) return;
    this.#reservations.delete(reservationId);
    if (reservation.isStored) this.#settle(reservation.lent, used);
  }

  count(tool: string): Promise<Breach | null> {
    return this.#patiently(() => this.#counted(tool));
  }

  async #counted(tool: string): Promise<Breach | null> {
    if (!(await this.#isExpected())) return { limit: "max_tool_calls", detail: "the run above is over" };
    const budgets = this.#budgets;
    if (budgets === null) return null;
    const isTask = tool === taskToolName;
    const isCounted = await this.#write(countCallOps(this.#deps.store, budgets, isTask));
    return isCounted ? null : callBreach((await this.#rows(budgets)) ?? [], isTask);
  }

  /** Returns the settlements since the last call, for the batch that stores the reply they belong to. */
  takeOps(): readonly WriteOp[] {
    if (this.#isSharing || this.#settled === null) return none;
    const settled = this.#settled;
    this.#settled = null;
    return this.#opsOf(settled, null);
  }

  /**
   * Returns all settlements that are not known to be stored, for the last batch before a suspension or the end. May be called
   * again, and its statements may be written while another settlement is in progress.
   */
  lastOps(): readonly WriteOp[] {
    if (this.#budgets === null) return this.#mayBeOpen ? leaveBudgetOps(this.#deps.store, this.#spender.runId) : none;
    const [said, settled] = [this.#said, this.#settled];
    return [
      ...(said === null ? none : this.#opsOf(said, this.#number)),
      ...(settled === null ? none : this.#opsOf(settled, this.#number + 1)),
    ];
  }

  /** A task waits while the store is briefly unavailable, because its failure would fail the call of the run above. */
  #patiently<T>(work: () => Promise<T>): Promise<T | null> {
    const { above, env, cancellation } = this.#deps;
    return above === null ? work() : patiently(work, env, cancellation);
  }

  /** Tells the run above, once, that a resumed task works again. False if that run is gone. */
  async #isExpected(): Promise<boolean> {
    const { above, onGone } = this.#deps;
    this.#told ??= above?.resumed() ?? Promise.resolve(true);
    try {
      if (await this.#told) return true;
      onGone();
      return false;
    } catch (error) {
      this.#told = null;
      throw error;
    }
  }

  async #share(budget: RunBudget, limits: RunLimits): Promise<void> {
    const { store } = this.#deps;
    const { runId: run_id, rootKey: root_key } = this.#spender;
    const { spent, unused } = budget;
    const open = [...this.#reservations.values()];
    const aside = open.reduce((all, { lent }) => sumOf(all, lent), nothing);
    const used = { tool_calls: spent.tool_calls, hops: spent.hops ?? 0, ...sumOf(spent, unused) };
    // From here on every reservation uses the store, once the row exists.
    this.#budgets = [run_id];
    this.#isSharing = true;
    for (const reservation of open) reservation.isStored = true;
    try {
      await store.write(openBudgetOps(store, { run_id, root_key, ...storedLimits(limits), ...used }, aside));
      this.#mayBeOpen = false;
    } catch (error) {
      this.#budgets = null;
      this.#mayBeOpen = true;
      this.#sharing = null;
      this.#settled = null;
      for (const reservation of open) reservation.isStored = false;
      throw error;
    } finally {
      this.#isSharing = false;
    }
  }

  /** Reserves up to the wanted amount. While other runs hold the rest, it waits for their settlements. */
  async #reserve(
    budgets: readonly string[],
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetUsed | Breach | null> {
    for (let attempt = 1; attempt <= attemptsMax && !this.#deps.cancellation.cancelled; ) {
      const rows = await this.#rows(budgets);
      if (rows === null) return null;
      const { most, scarcest } = mostOf(rows, asked, price);
      const isScarce = "limit" in most || most.output_tokens < Math.min(outputMin, asked.output_tokens);
      if (isScarce && this.#isHeld(scarcest)) {
        await this.#pause();
        continue;
      }
      if ("limit" in most) {
        if (scarcest.run_id === this.#spender.workflowRunId)
          this.#workflowBreach = `the next call does not fit in the ${scarcest.max_cost_usd} USD of the run`;
        return most;
      }
      if (await this.#write(reserveOps(this.#deps.store, budgets, this.#spender.runId, most))) return most;
      attempt++;
    }
    if (this.#deps.cancellation.cancelled) return null;
    throw new SvcError("storage_unavailable");
  }

  /** Returns the stored budgets; null if they were deleted with the thread, or the run above has left its own. */
  async #rows(budgets: readonly string[]): Promise<Standing[] | null> {
    const { store, onGone, above } = this.#deps;
    if (this.#isSharing) await this.#sharing;
    await this.#giveBack();
    if (this.#settled !== null || this.#said !== null) await this.#write(none);
    const rows = await Promise.all(
      budgets.map(async (id) => {
        const [row, sharers] = await Promise.all([runBudgetById(store, id), sharersOf(store, id, this.#spender.runId)]);
        return row && { ...row, ...sharers };
      }),
    );
    const found = rows.filter((row) => row !== undefined);
    const isWaitedFor = above === null || found.some(({ run_id, isOwned }) => run_id === above.runId && isOwned);
    if (found.length === budgets.length && isWaitedFor) return found;
    onGone();
    return null;
  }

  /** True if a reservation of another call may still be settled. */
  #isHeld({ holding }: Standing): boolean {
    return holding > 0 || [...this.#reservations.values()].some(({ isStored }) => isStored);
  }

  /** Releases what an earlier process had reserved, before the first reservation. */
  async #giveBack(): Promise<void> {
    if (!this.#isDirty) return;
    const { store } = this.#deps;
    this.#reset ??= store.write(resetShareOps(store, this.#spender.runId, this.#number)).then(
      () => {
        this.#isDirty = false;
      },
      (error) => {
        this.#reset = null;
        throw error;
      },
    );
    await this.#reset;
  }

  /** Writes statements with the settlements so far. False if a budget rejects the amount. */
  async #write(ops: readonly WriteOp[]): Promise<boolean> {
    if (this.#isSharing) await this.#sharing;
    // A settlement of unknown outcome is repeated under its number, so the next one must wait for it.
    while (this.#saying !== null) await this.#saying;
    const saying = this.#sayOps();
    if (saying.length + ops.length === 0) return true;
    const written = this.#deps.store.write([...saying, ...ops]);
    if (saying.length > 0) this.#saying = written.catch(() => {});
    try {
      await written;
      if (saying.length > 0) this.#said = null;
      return true;
    } catch (error) {
      if (error instanceof SvcError && error.code === "conflict") return false;
      throw error;
    } finally {
      if (saying.length > 0) this.#saying = null;
    }
  }

  /** Returns the settlement of unknown outcome, or else a new one. */
  #sayOps(): readonly WriteOp[] {
    if (this.#said === null) {
      if (this.#settled === null) return none;
      this.#said = this.#settled;
      this.#settled = null;
      this.#number++;
    }
    return this.#opsOf(this.#said, this.#number);
  }

  #opsOf(settled: Settlement, number: number | null): readonly WriteOp[] {
    return settleOps(this.#deps.store, this.#budgets ?? none, this.#spender.runId, settled, number);
  }

  /** Notes how much of a reservation was used. */
  #settle(aside: BudgetUsed, used: BudgetUsed): void {
    if (aside.input_tokens + aside.output_tokens + aside.cost_usd === 0) return;
    const before = this.#settled;
    this.#settled =
      before === null ? { aside, used } : { aside: sumOf(before.aside, aside), used: sumOf(before.used, used) };
  }

  #pause(): Promise<unknown> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#deps.env.timer(lookMs, resolve);
    return this.#deps.cancellation.orStopped(promise).finally(() => timer.cancel());
  }
}

const none: readonly never[] = [];

/** Returns the limits of a run as its stored budget has them. */
export function storedLimits({
  max_tool_calls,
  max_peer_hops: max_hops,
  max_input_tokens,
  max_output_tokens,
  max_cost_usd,
}: RunLimits): Omit<RunBudgetRow, "run_id" | "root_key" | "tool_calls" | "hops" | keyof BudgetUsed> {
  return { max_tool_calls, max_hops, max_input_tokens, max_output_tokens, max_cost_usd };
}
