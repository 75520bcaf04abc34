import type { Loan, LoanUsed } from "../bus/protocol/run.ts";
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

/** What a run may use that spends the budget of another: it has to ask before each model call and each tool call. */
export interface Lender {
  /** Null while there is nothing to be had any more: whose budget it is has gone. */
  lend(
    asked: Pick<LoanUsed, "input_tokens" | "output_tokens">,
    price: ModelPrice | null,
  ): Promise<Loan | Breach | null>;
  repay(loanId: string, used: LoanUsed): void;
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
  /** Whose budget is spent too; null for a run that nobody has asked for but its caller. */
  readonly lender: Lender | null;
  /** What the model call under way may use of it, and what was used when it was lent. */
  #loan: { readonly lent: Loan; readonly before: Spent } | null = null;

  /** `startedAt` and `latest` are epoch milliseconds; `spent` is what the run had used when it was put aside. */
  constructor(
    limits: RunLimits,
    startedAt: number,
    spent: Spent | null = null,
    lender: Lender | null = null,
    latest = Number.POSITIVE_INFINITY,
  ) {
    this.#limits = limits;
    this.lender = lender;
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

  /** Epoch milliseconds after which the run gets no more time. */
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

  /**
   * Asks for what the next model call may use of another's budget; `repay` must follow. Null when there is some, or the limit in the way;
   * `gone` when nobody is there to ask.
   */
  async borrow(inputTokens: number, wanted: number, price: ModelPrice | null): Promise<Breach | "gone" | null> {
    this.repay();
    const lent = await this.lender?.lend({ input_tokens: inputTokens, output_tokens: wanted }, price);
    if (lent === undefined || lent === null) return "gone";
    if ("limit" in lent) return lent;
    this.#loan = { lent, before: this.spent };
    return null;
  }

  /** Says what was used of the last loan. */
  repay(): void {
    const loan = this.#loan;
    this.#loan = null;
    if (loan === null) return;
    this.lender?.repay(loan.lent.loan_id, {
      input_tokens: this.#input - loan.before.input_tokens,
      output_tokens: this.#output - loan.before.output_tokens,
      cost_usd: this.#cost - loan.before.cost_usd,
    });
  }

  /**
   * Sets aside what a call is expected to cost, or says which limit is in the way. `wanted` is the output that the request would ask
   * for, null for no bound; `price` the dearest of the routes that may answer. A call that writes more has to ask: see `extend`.
   */
  reserve(inputTokens: number, wanted: number | null, price: ModelPrice | null, now: number): Reservation | Breach {
    if (now >= this.#deadline) return this.#breach("max_wall_clock_seconds");
    if (inputTokens > this.#inputLeft) return this.#breach("max_input_tokens");
    if (this.#outputLeft < 1) return this.#breach("max_output_tokens");
    // Whatever of it a provider reads from its cache or writes there, it will not cost more.
    const inputCost =
      price === null ? 0 : (inputTokens * Math.max(price.input, price.cache_read, price.cache_write)) / 1e6;
    const affordable = this.#affordable(price, inputCost);
    if (affordable < 1) return this.#breach("max_cost_usd");
    const outputTokensMax = Math.min(this.#outputLeft, affordable);
    const reserved: Reservation = { inputTokens, outputTokens: 0, costUsd: inputCost, outputTokensMax, price };
    this.#input += inputTokens;
    this.#cost += inputCost;
    this.#setAside(reserved, Math.min(wanted ?? assumedOutputTokens, outputTokensMax));
    return reserved;
  }

  /** Sets more output aside for a call under way, up to 4,096 tokens, or says which limit has left it none. */
  extend(reserved: Reservation): Breach | null {
    if (this.#outputLeft < 1) return this.#breach("max_output_tokens");
    const affordable = this.#affordable(reserved.price, 0);
    if (affordable < 1) return this.#breach("max_cost_usd");
    this.#setAside(reserved, Math.min(assumedOutputTokens, this.#outputLeft, affordable));
    return null;
  }

  /** Replaces what was set aside by what was used; `used` is null when the call failed before it was metered. */
  settle(reserved: Reservation, used: PricedTokens | null, price: ModelPrice | null): void {
    this.#input -= reserved.inputTokens;
    this.#output -= reserved.outputTokens;
    this.#cost -= reserved.costUsd;
    if (used === null) return;
    this.#input += used.input + used.cacheRead + used.cacheWrite;
    this.#output += used.output;
    this.#cost += costOf(used, price).total;
  }

  /** Replaces what was set aside for a call of somebody else by what that has used. */
  settleLoan(reserved: Reservation, used: LoanUsed): void {
    this.settle(reserved, null, null);
    this.#input += used.input_tokens;
    this.#output += used.output_tokens;
    this.#cost += used.cost_usd;
  }

  get #inputLeft(): number {
    const own = this.#limits.max_input_tokens - this.#input;
    if (this.#loan === null) return own;
    const { lent, before } = this.#loan;
    return Math.min(own, lent.input_tokens + before.input_tokens - this.#input);
  }

  get #outputLeft(): number {
    const own = this.#limits.max_output_tokens - this.#output;
    if (this.#loan === null) return own;
    const { lent, before } = this.#loan;
    return Math.min(own, lent.output_tokens + before.output_tokens - this.#output);
  }

  get #costLeft(): number {
    const own = this.#limits.max_cost_usd - this.#cost;
    if (this.#loan === null) return own;
    const { lent, before } = this.#loan;
    return Math.min(own, lent.cost_usd + before.cost_usd - this.#cost);
  }

  /** Output tokens that can be paid beside `inputCost`; below 0 where not even that can. */
  #affordable(price: ModelPrice | null, inputCost: number): number {
    if (price === null) return Number.MAX_SAFE_INTEGER;
    // What was lent covers what it was lent for, but for the last digit of a sum.
    const left = this.#costLeft - inputCost + (this.#loan === null ? 0 : 1e-9);
    if (left < 0) return -1;
    return price.output > 0 ? Math.floor((left * 1e6) / price.output) : Number.MAX_SAFE_INTEGER;
  }

  #setAside(reserved: Reservation, outputTokens: number): void {
    const cost = reserved.price === null ? 0 : (outputTokens * reserved.price.output) / 1e6;
    reserved.outputTokens += outputTokens;
    reserved.costUsd += cost;
    this.#output += outputTokens;
    this.#cost += cost;
  }

  #breach(limit: keyof RunLimits): Breach {
    return { limit, detail: `${limit} (${this.#limits[limit]}) reached` };
  }
}

/** Whether a reservation was refused. */
export function isBreach(outcome: Reservation | Breach): outcome is Breach {
  return "limit" in outcome;
}
