import type { BudgetReservation, BudgetUsed } from "../bus/protocol/run.ts";
import type { ModelPrice } from "../manifests/registries.ts";
import type { RunLimits } from "../manifests/sections/limits.ts";
import { costOf, type PricedTokens } from "./usage.ts";

/** What was reached, in the words of the manifest. */
export interface Breach {
  readonly limit: keyof RunLimits;
  readonly detail: string;
}

/** What a model call may use, set aside before it is made. It grows with the call and is given back when the call is settled. */
export interface Reservation {
  readonly inputTokens: number;
  /** Output tokens that are set aside by now. */
  outputTokens: number;
  costUsd: number;
  /** Output tokens that the limits left to the call when it began. */
  readonly outputTokensMax: number;
  /** The dearest rates that it may be at; null when none are known. */
  readonly price: ModelPrice | null;
  /** What it was lent to stay in; null where it is in the run's own limits alone. */
  readonly of: Borrowed | null;
}

/** What was lent for one model call with all its tries, and what of it is used or set aside. */
export interface Borrowed {
  readonly lent: BudgetReservation;
  input: number;
  output: number;
  cost: number;
}

/** What a run has used of its limits. */
export interface Spent {
  readonly tool_calls: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
  /** Tasks that were handed to others; absent for none. */
  readonly hops?: number;
}

/** Of what is spent with others: the run has to ask before each model call and each tool call. */
export interface ParentBudget {
  /** Whether a call has to stay in what it was lent. */
  readonly binds: boolean;
  /** Null while there is nothing to be had any more: whose budget it is has gone. */
  reserve(
    asked: Pick<BudgetUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<BudgetReservation | Breach | null>;
  repay(reservationId: string, used: BudgetUsed): void;
  count(tool: string): Promise<Breach | null>;
}

/** Output that a call is assumed to need when nobody bounds it, and that is set aside at a time when it writes more. */
const assumedOutputTokens = 4_096;

/**
 * What one run may still spend. Tokens and cost are set aside before a model call and settled after it, so that calls side by
 * side never pass a cap together. A breach is sticky: what has been reached stays reached.
 */
export class RunBudget {
  readonly #limits: RunLimits;
  readonly #deadline: number;
  #toolCalls = 0;
  #input = 0;
  #output = 0;
  #cost = 0;
  #hops = 0;
  /** Whose budget is spent too; null for a run that spends with nobody. */
  readonly parentBudget: ParentBudget | null;
  /** What model calls under way were lent. */
  readonly #borrowed = new Set<Borrowed>();

  /**
   * `startedAt` and `latest` are milliseconds on the monotonic clock, as is every time that it is told: the machine's clock may be set while
   * the run goes on. `spent` is what the run had used when it was put aside.
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

  /** What was used and what is set aside. */
  get spent(): Spent {
    return {
      tool_calls: this.#toolCalls,
      input_tokens: this.#input,
      output_tokens: this.#output,
      cost_usd: this.#cost,
      ...(this.#hops > 0 && { hops: this.#hops }),
    };
  }

  /** When the run gets no more time, on the monotonic clock. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Counts a tool call, or says why it may not run. */
  takeToolCall(now: number): Breach | null {
    if (now >= this.#deadline) return this.#breach("max_wall_clock_seconds");
    if (this.#toolCalls >= this.#limits.max_tool_calls) return this.#breach("max_tool_calls");
    this.#toolCalls++;
    return null;
  }

  /** Counts a task that is handed to another agent, or says why it may not be. */
  takeHop(): Breach | null {
    if (this.#hops >= this.#limits.max_peer_hops) return this.#breach("max_peer_hops");
    this.#hops++;
    return null;
  }

  /** Takes back what was counted for a call, or a task, that nobody could say may be made. */
  uncount(isTask: boolean): void {
    this.#toolCalls--;
    if (isTask) this.#hops--;
  }

  /** What was lent and is neither used nor set aside. */
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
   * Asks for what the next model call may use of another's budget; `repay` must follow. The limit in the way, or `gone` when nobody is
   * there to ask.
   */
  async borrow(inputTokens: number, wanted: number, price: ModelPrice | null): Promise<Borrowed | Breach | "gone"> {
    const lent = await this.parentBudget?.reserve({ input_tokens: inputTokens, output_tokens: wanted }, price);
    if (lent === undefined || lent === null) return "gone";
    if ("limit" in lent) return lent;
    const borrowed: Borrowed = { lent, input: 0, output: 0, cost: 0 };
    this.#borrowed.add(borrowed);
    return borrowed;
  }

  /** Says what was used of a reservation, once. */
  repay(borrowed: Borrowed): void {
    if (!this.#borrowed.delete(borrowed)) return;
    const { lent, input, output, cost } = borrowed;
    this.parentBudget?.repay(lent.reservation_id, { input_tokens: input, output_tokens: output, cost_usd: cost });
  }

  /**
   * Sets aside what a call is expected to cost, or says which limit is in the way. `wanted` is the output that the request would ask
   * for, null for no bound; `price` the dearest of the routes that may answer. A call that writes more has to ask: see `extend`.
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
    // Whatever of it a provider reads from its cache or writes there, it will not cost more.
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

  /** Sets more output aside for a call under way, up to 4,096 tokens, or says which limit has left it none. */
  extend(reserved: Reservation): Breach | null {
    const outputLeft = this.#outputLeft(reserved.of);
    if (outputLeft < 1) return this.#breach("max_output_tokens");
    const affordable = this.#affordable(reserved.price, 0, reserved.of);
    if (affordable < 1) return this.#breach("max_cost_usd");
    this.#setAside(reserved, Math.min(assumedOutputTokens, outputLeft, affordable));
    return null;
  }

  /** Replaces what was set aside by what was used; `used` is null when the call failed before it was metered. */
  settle(reserved: Reservation, used: PricedTokens | null, price: ModelPrice | null): void {
    const { of } = reserved;
    this.#count(of, -reserved.inputTokens, -reserved.outputTokens, -reserved.costUsd);
    if (used === null) return;
    this.#count(of, used.input + used.cacheRead + used.cacheWrite, used.output, costOf(used, price).total);
  }

  /** Replaces what was set aside for a call of somebody else by what that has used. */
  settleReservation(reserved: Reservation, used: BudgetUsed): void {
    this.settle(reserved, null, null);
    this.#count(reserved.of, used.input_tokens, used.output_tokens, used.cost_usd);
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
    // What was lent covers what it was lent for, but for the last digit of a sum.
    return this.#isBound(of) ? Math.min(own + 1e-9, of.lent.cost_usd - of.cost + 1e-9) : own;
  }

  #isBound(of: Borrowed | null): of is Borrowed {
    return of !== null && this.parentBudget?.binds === true;
  }

  /** Output tokens that can be paid beside `inputCost`; below 0 where not even that can. */
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

/** Whether a reservation was refused. */
export function isBreach(outcome: Reservation | Breach): outcome is Breach {
  return "limit" in outcome;
}
