import type { BudgetReservation, BudgetUsed } from "../bus/protocol/task.ts";
import type { ModelPrice } from "../manifests/registries.ts";
import type { RunLimits } from "../manifests/sections/limits.ts";
import { costOf, type PricedTokens } from "./usage.ts";

/** The limit that was reached, by its name in the manifest; `budget` for a budget of SVC_BUDGETS. */
export interface Breach {
  readonly limit: keyof RunLimits | "budget";
  readonly detail: string;
}

/**
 * Tokens and cost reserved for a model call before it starts. The reservation grows while the call runs and is released when the
 * call is settled.
 */
export interface Reservation {
  readonly inputTokens: number;
  /** Output tokens reserved so far. */
  outputTokens: number;
  costUsd: number;
  /** Output tokens that the limits allowed when the call began. */
  readonly outputTokensMax: number;
  /** The highest rates of the routes that may answer; null if unknown. */
  readonly price: ModelPrice | null;
  /** The part of a shared budget that this call must stay within; null if only the run's own limits apply. */
  readonly of: Borrowed | null;
}

/** A part of a shared budget for one model call with all its retries, with the amounts used or reserved. */
export interface Borrowed {
  readonly lent: BudgetReservation;
  input: number;
  output: number;
  cost: number;
}

/** Usage of a run against its limits. */
export interface Spent {
  readonly tool_calls: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
  /** Tasks handed to other agents; absent for none. */
  readonly hops?: number;
}

/** A shared budget. The run asks it before each model call and each tool call. */
export interface ParentBudget {
  /** True if a call must stay within its part of the shared budget. */
  readonly binds: boolean;
  /** Resolves to null if the owner of the shared budget no longer exists. */
  reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null>;
  repay(reservationId: string, used: BudgetUsed): void;
  count(tool: string): Promise<Breach | null>;
}

/** Output tokens reserved for a call without a bound, and the step by which a reservation grows. */
const assumedOutputTokens = 4_096;

/**
 * The remaining budget of one run. Tokens and cost are reserved before a model call and settled after it, so that concurrent
 * calls together never exceed a limit. Limits compare totals that never shrink, so a limit that was reached stays reached.
 */
export class RunBudget {
  readonly #limits: RunLimits;
  readonly #deadline: number;
  #toolCalls = 0;
  #input = 0;
  #output = 0;
  #cost = 0;
  #hops = 0;
  /** The shared budget that this run also spends from; null for none. */
  readonly parentBudget: ParentBudget | null;
  /** Parts of the shared budget that are held by model calls in progress. */
  readonly #borrowed = new Set<Borrowed>();

  /**
   * All times are milliseconds on the monotonic clock, because the system clock may be changed during a run. `spent` is the
   * usage of the run before it was suspended.
   */
  constructor(
    limits: RunLimits,
    startedAt: number,
    spent: Spent | null = null,
    parentBudget: ParentBudget | null = null,
    latest = Number.POSITIVE_INFINITY,
  ) {
    this.#limits = limits;
    this.parentBudget = parentBudget;
    this.#deadline = Math.min(latest, startedAt + limits.max_wall_clock_seconds * 1000);
    if (spent === null) return;
    this.#toolCalls = spent.tool_calls;
    this.#input = spent.input_tokens;
    this.#output = spent.output_tokens;
    this.#cost = spent.cost_usd;
    this.#hops = spent.hops ?? 0;
  }

  /** The sum of usage and reservations. */
  get spent(): Spent {
    return {
      tool_calls: this.#toolCalls,
      input_tokens: this.#input,
      output_tokens: this.#output,
      cost_usd: this.#cost,
      ...(this.#hops > 0 && { hops: this.#hops }),
    };
  }

  /** The time at which the run is out of time, on the monotonic clock. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Counts a tool call; returns the limit that forbids it, or null. */
  takeToolCall(now: number): Breach | null {
    if (now >= this.#deadline) return this.#breach("max_wall_clock_seconds");
    if (this.#toolCalls >= this.#limits.max_tool_calls) return this.#breach("max_tool_calls");
    this.#toolCalls++;
    return null;
  }

  /** Counts a task handed to another agent; returns the limit that forbids it, or null. */
  takeHop(): Breach | null {
    if (this.#hops >= this.#limits.max_peer_hops) return this.#breach("max_peer_hops");
    this.#hops++;
    return null;
  }

  /** The part of the shared budget that is neither used nor reserved. */
  get unused(): BudgetUsed {
    const unused = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };
    for (const { lent, input, output, cost } of this.#borrowed) {
      unused.input_tokens += Math.max(0, lent.input_tokens - input);
      unused.output_tokens += Math.max(0, lent.output_tokens - output);
      unused.cost_usd += Math.max(0, lent.cost_usd - cost);
    }
    return unused;
  }

  /**
   * Asks the shared budget for a part for the next model call; `repay` must follow. Returns the limit that forbids the call, or
   * `gone` if the budget's owner no longer exists.
   */
  async borrow(inputTokens: number, wanted: number, price: ModelPrice | null): Promise<Borrowed | Breach | "gone"> {
    const lent = await this.parentBudget?.reserve({ input_tokens: inputTokens, output_tokens: wanted }, price);
    if (lent === undefined || lent === null) return "gone";
    if ("limit" in lent) return lent;
    const borrowed: Borrowed = { lent, input: 0, output: 0, cost: 0 };
    this.#borrowed.add(borrowed);
    return borrowed;
  }

  /** Reports the usage of a part to the shared budget, once. */
  repay(borrowed: Borrowed): void {
    if (!this.#borrowed.delete(borrowed)) return;
    const { lent, input, output, cost } = borrowed;
    this.parentBudget?.repay(lent.reservation_id, { input_tokens: input, output_tokens: output, cost_usd: cost });
  }

  /**
   * Reserves the expected cost of a call, or returns the limit that forbids it. `wanted` is the output bound of the request,
   * null for none. `price` is the highest of the routes that may answer. A call that writes more must call `extend`.
   */
  reserve(
    inputTokens: number,
    wanted: number | null,
    price: ModelPrice | null,
    now: number,
    of: Borrowed | null = null,
  ): Reservation | Breach {
    if (now >= this.#deadline) return this.#breach("max_wall_clock_seconds");
    if (inputTokens > this.#inputLeft(of)) return this.#breach("max_input_tokens");
    const outputLeft = this.#outputLeft(of);
    if (outputLeft < 1) return this.#breach("max_output_tokens");
    // Use the highest input rate: the call costs no more, whatever the provider reads from or writes to its cache.
    const inputCost =
      price === null ? 0 : (inputTokens * Math.max(price.input, price.cache_read, price.cache_write)) / 1e6;
    const affordable = this.#affordable(price, inputCost, of);
    if (affordable < 1) return this.#breach("max_cost_usd");
    const outputTokensMax = Math.min(outputLeft, affordable);
    const reserved: Reservation = { inputTokens, outputTokens: 0, costUsd: inputCost, outputTokensMax, price, of };
    this.#count(of, inputTokens, 0, inputCost);
    this.#setAside(reserved, Math.min(wanted ?? assumedOutputTokens, outputTokensMax));
    return reserved;
  }

  /** Reserves up to 4,096 more output tokens for a running call; returns the limit that forbids it, or null. */
  extend(reserved: Reservation): Breach | null {
    const outputLeft = this.#outputLeft(reserved.of);
    if (outputLeft < 1) return this.#breach("max_output_tokens");
    const affordable = this.#affordable(reserved.price, 0, reserved.of);
    if (affordable < 1) return this.#breach("max_cost_usd");
    this.#setAside(reserved, Math.min(assumedOutputTokens, outputLeft, affordable));
    return null;
  }

  /** Replaces a reservation by the actual usage; `used` is null if the call failed before it was metered. */
  settle(reserved: Reservation, used: PricedTokens | null, price: ModelPrice | null): void {
    const { of } = reserved;
    this.#count(of, -reserved.inputTokens, -reserved.outputTokens, -reserved.costUsd);
    if (used === null) return;
    this.#count(of, used.input + used.cacheRead + used.cacheWrite, used.output, costOf(used, price).total);
  }

  #count(of: Borrowed | null, input: number, output: number, cost: number): void {
    this.#input += input;
    this.#output += output;
    this.#cost += cost;
    if (of === null) return;
    of.input += input;
    of.output += output;
    of.cost += cost;
  }

  #inputLeft(of: Borrowed | null): number {
    const own = this.#limits.max_input_tokens - this.#input;
    return this.#isBound(of) ? Math.min(own, of.lent.input_tokens - of.input) : own;
  }

  #outputLeft(of: Borrowed | null): number {
    const own = this.#limits.max_output_tokens - this.#output;
    return this.#isBound(of) ? Math.min(own, of.lent.output_tokens - of.output) : own;
  }

  #costLeft(of: Borrowed | null): number {
    const own = this.#limits.max_cost_usd - this.#cost;
    // The small tolerance absorbs rounding of sums, so that a call may use all of its part.
    return this.#isBound(of) ? Math.min(own + 1e-9, of.lent.cost_usd - of.cost + 1e-9) : own;
  }

  #isBound(of: Borrowed | null): of is Borrowed {
    return of !== null && this.parentBudget?.binds === true;
  }

  /** Returns the output tokens that are affordable after `inputCost`; negative if the input alone is not. */
  #affordable(price: ModelPrice | null, inputCost: number, of: Borrowed | null): number {
    if (price === null) return Number.MAX_SAFE_INTEGER;
    const left = this.#costLeft(of) - inputCost;
    if (left < 0) return -1;
    return price.output > 0 ? Math.floor((left * 1e6) / price.output) : Number.MAX_SAFE_INTEGER;
  }

  #setAside(reserved: Reservation, outputTokens: number): void {
    const cost = reserved.price === null ? 0 : (outputTokens * reserved.price.output) / 1e6;
    reserved.outputTokens += outputTokens;
    reserved.costUsd += cost;
    this.#count(reserved.of, 0, outputTokens, cost);
  }

  #breach(limit: keyof RunLimits): Breach {
    return { limit, detail: `${limit} (${this.#limits[limit]}) reached` };
  }
}

/** True if the reservation was refused. */
export function isBreach(outcome: Reservation | Breach): outcome is Breach {
  return "limit" in outcome;
}
