import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { BudgetReservation, BudgetUsed } from "../../../bus/protocol/run.ts";
import type { Breach, ParentBudget, RunBudget } from "../../../governance/budget.ts";
import type { ModelPrice } from "../../../manifests/registries.ts";
import { taskToolName } from "../../../manifests/sections/delegation.ts";
import type { RunLimits } from "../../../manifests/sections/limits.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  countCallOps,
  leaveBudgetOps,
  openBudgetOps,
  reserveOps,
  resetShareOps,
  runBudgetById,
  type Settlement,
  settleOps,
  sharersOf,
} from "../../../storage/tables/run-budgets.ts";
import type { Cancellation } from "../../runtime/cancellation.ts";
import { callBreach, leastOf, minus, mostOf, nothing, type Standing, sumOf, unpriced, wantedOf } from "./shares.ts";

/** Output that is worth a model call: with less one waits for what others may give back. */
const outputMin = 256;
/** How often it is looked for what others give back. */
const lookMs = 200;
/** A row that others change meanwhile is read again so often. */
const attemptsMax = 50;

/** Who spends, and of what. */
export interface Spender {
  readonly runId: string;
  /** The key of the conversation that all began in. */
  readonly rootKey: number;
  /** The budgets in the store that it spends of, outermost first; null while it spends with nobody there. */
  readonly budgets: readonly string[] | null;
  /** It goes on, maybe in another process. */
  readonly isResumed: boolean;
  /** Money is bounded above: a model without a price may use nothing. */
  readonly isPriced: boolean;
}

/** What the budget needs of its run; `onGone` is called when its conversation is deleted. */
export interface TreeDeps {
  readonly store: TenantStore;
  readonly env: Env;
  readonly cancellation: Cancellation;
  readonly onGone: () => void;
}

interface OpenReservation {
  /** Of the run above; null for none. */
  readonly above: string | null;
  readonly lent: BudgetUsed;
  /** It is set aside in the store. */
  isStored: boolean;
}

/**
 * The budget of a run with tasks, and of a background task. While all who spend it are in one run, or ask it by message, what it lends
 * is only noted. From the first background task on it lends what it has set aside in the store.
 */
export class TreeBudget implements ParentBudget {
  readonly #spender: Spender;
  readonly #deps: TreeDeps;
  readonly #above: ParentBudget | null;
  readonly #reservations = new Map<string, OpenReservation>();
  #budgets: readonly string[] | null;
  #sharing: Promise<void> | null = null;
  #isSharing = false;
  /** The budget may be in the store: whether it is was not answered. */
  #mayBeOpen = false;
  /** What a process before may have left set aside is given back; null until it is. */
  #reset: Promise<void> | null = null;
  #isDirty: boolean;
  /** What was used, to be written with what it was used for. */
  #settled: Settlement | null = null;
  /** What was used and is being written by itself, or may have been. */
  #said: Settlement | null = null;
  /** The number of that: the time, and one more for each since. What a process before has said has a lower one. */
  #number: number;
  /** Its writing; null while nothing is being written. */
  #saying: Promise<unknown> | null = null;
  #flushed: Promise<unknown> = Promise.resolve();

  /** `above` is whom the run asks by message. */
  constructor(spender: Spender, above: ParentBudget | null, deps: TreeDeps) {
    this.#spender = spender;
    this.#above = above;
    this.#deps = deps;
    this.#budgets = spender.budgets;
    this.#isDirty = spender.isResumed && spender.budgets !== null;
    this.#number = deps.env.now();
  }

  get binds(): boolean {
    return this.#budgets !== null || this.#above?.binds === true;
  }

  /** Whether it is in the store. */
  get isShared(): boolean {
    return this.#budgets !== null;
  }

  /** What the run above lends of it too. What is not lent is set aside no more, also where the run above could not say. */
  async #askAbove(
    own: BudgetUsed,
    price: ModelPrice | null,
    isStored: boolean,
  ): Promise<(BudgetUsed & { readonly reservation_id: string | null }) | Breach | null> {
    if (this.#above === null) return { ...own, reservation_id: null };
    let above: BudgetReservation | Breach | null = null;
    try {
      above = await this.#above.reserve(own, price);
      return above;
    } finally {
      if (isStored && (above === null || "limit" in above)) this.#settle(own, nothing);
    }
  }

  /** From here on all who spend it find it in the store. */
  share(budget: RunBudget, limits: RunLimits): Promise<void> {
    if (this.#budgets !== null && !this.#isSharing) return Promise.resolve();
    this.#sharing ??= this.#share(budget, limits);
    return this.#sharing;
  }

  async reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null> {
    if (this.#spender.isPriced && price === null) return unpriced;
    for (;;) {
      const budgets = this.#budgets;
      const own = budgets === null ? wantedOf(asked, price) : await this.#reserve(budgets, asked, price);
      if (own === null || "limit" in own) return own;
      const above = await this.#askAbove(own, price, budgets !== null);
      if (above === null || "limit" in above) return above;
      const ofAbove = above.reservation_id;
      if (budgets !== this.#budgets) {
        // What was shared meanwhile knows nothing of this reservation.
        if (ofAbove !== null) this.#above?.repay(ofAbove, nothing);
        continue;
      }
      const lent = leastOf(own, above);
      if (budgets !== null) this.#settle(minus(own, lent), nothing);
      const reservation_id = this.#deps.env.id();
      this.#reservations.set(reservation_id, { above: ofAbove, lent, isStored: budgets !== null });
      return { reservation_id, ...lent };
    }
  }

  repay(reservationId: string, used: BudgetUsed): void {
    const reservation = this.#reservations.get(reservationId);
    if (reservation === undefined) return;
    this.#reservations.delete(reservationId);
    if (reservation.above !== null) this.#above?.repay(reservation.above, used);
    if (reservation.isStored) this.#settle(reservation.lent, used);
  }

  async count(tool: string): Promise<Breach | null> {
    const budgets = this.#budgets;
    if (budgets !== null) {
      const isTask = tool === taskToolName;
      const isCounted = await this.#write(countCallOps(this.#deps.store, budgets, isTask));
      if (!isCounted) return callBreach((await this.#rows(budgets)) ?? [], isTask);
    }
    return this.#above === null ? null : this.#above.count(tool);
  }

  /** What was used since it was last asked. It goes into the batch that keeps what it was used for. */
  takeOps(): readonly WriteOp[] {
    if (this.#isSharing || this.#settled === null) return none;
    const settled = this.#settled;
    this.#settled = null;
    return this.#opsOf(settled, null);
  }

  /**
   * All that was used and is not known to be written, for a batch behind which the run writes nothing more for now. It may be asked for
   * again, and be written beside what is on its way.
   */
  lastOps(): readonly WriteOp[] {
    if (this.#budgets === null) return this.#mayBeOpen ? leaveBudgetOps(this.#deps.store, this.#spender.runId) : none;
    const [said, settled] = [this.#said, this.#settled];
    return [
      ...(said === null ? none : this.#opsOf(said, this.#number)),
      ...(settled === null ? none : this.#opsOf(settled, this.#number + 1)),
    ];
  }

  /** Writes what was used by others, who have their own log. */
  flush(): void {
    if (this.#settled === null) return;
    const before = this.#flushed;
    const all = () => before;
    this.#flushed = this.#write(none).then(all, all);
  }

  /** Resolves when that is written, or cannot be. */
  get flushed(): Promise<unknown> {
    return this.#flushed;
  }

  async #share(budget: RunBudget, limits: RunLimits): Promise<void> {
    const { store } = this.#deps;
    const { runId: run_id, rootKey: root_key } = this.#spender;
    const { max_tool_calls, max_peer_hops: max_hops, max_input_tokens, max_output_tokens, max_cost_usd } = limits;
    const { spent, unused } = budget;
    const open = [...this.#reservations.values()];
    const aside = open.reduce((all, { lent }) => sumOf(all, lent), nothing);
    const bounds = { max_tool_calls, max_hops, max_input_tokens, max_output_tokens, max_cost_usd };
    const used = { tool_calls: spent.tool_calls, hops: spent.hops ?? 0, ...sumOf(spent, unused) };
    // Whoever asks from here on asks the store, when the row is there.
    this.#budgets = [run_id];
    this.#isSharing = true;
    for (const reservation of open) reservation.isStored = true;
    try {
      await store.write(openBudgetOps(store, { run_id, root_key, ...bounds, ...used }, aside));
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

  /** Sets aside what there is, up to what is wanted. While others hold the rest, it waits for what they give back. */
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
      if ("limit" in most) return most;
      if (await this.#write(reserveOps(this.#deps.store, budgets, this.#spender.runId, most))) return most;
      attempt++;
    }
    if (this.#deps.cancellation.cancelled) return null;
    throw new SvcError("storage_unavailable");
  }

  /** The budgets as they stand; null when they are gone with the conversation. */
  async #rows(budgets: readonly string[]): Promise<Standing[] | null> {
    const { store, onGone } = this.#deps;
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
    if (found.length === budgets.length) return found;
    onGone();
    return null;
  }

  /** Whether somebody may give back something of a budget. */
  #isHeld({ holding }: Standing): boolean {
    return holding > 0 || [...this.#reservations.values()].some(({ isStored }) => isStored);
  }

  /** Gives back what a process before had set aside, before anything else is. */
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

  /** Writes it, with what was used by now. False where one of the budgets does not allow it. */
  async #write(ops: readonly WriteOp[]): Promise<boolean> {
    if (this.#isSharing) await this.#sharing;
    // What may have been written is said again by its number, which the one behind it would take.
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

  /** What may have been written, or what was used since. */
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

  /** Of what was set aside so much was used. */
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
