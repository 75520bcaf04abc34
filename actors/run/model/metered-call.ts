import { cutText } from "../../../bus/cut-text.ts";
import type { TokenCount } from "../../../bus/protocol/model-reply.ts";
import { type Borrowed, type Breach, isBreach, type Reservation } from "../../../governance/budget.ts";
import { OutputCount } from "../../../governance/output-count.ts";
import type { ModelPrice, ModelRoute } from "../../../manifests/registries.ts";
import type { UsageRow } from "../../../storage/tables/usage.ts";
import type { CallObserver } from "../../models/call.ts";
import { callObserver } from "../../models/call-observer.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import type { ModelReply } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import { CallRecord, type CallWords } from "./call-record.ts";

/** What a model is expected to write at most whose route does not say. */
const assumedOutputTokens = 32_768;

/** A limit does not allow the next try of a model call. */
export class LimitReached extends Error {
  readonly breach: Breach;

  constructor(breach: Breach) {
    super(breach.detail);
    this.breach = breach;
  }
}

/**
 * One call of the model with all its tries: tokens and money are set aside before each, what it writes is held against them while it
 * comes, and what it has used is counted when it is over: in the limits of the run, in its rows and in the metrics.
 */
export class MeteredCall {
  readonly #runContext: RunContext;
  readonly #inputTokens: number;
  readonly #asked: CallBounds;
  readonly #record: CallRecord;
  #try: Try | null = null;
  #borrowed: Borrowed | null = null;
  #shownLength = 0;

  /** `inputTokens` is what the prompt is estimated to be; `words` is what it is made with, for the record. */
  constructor(runContext: RunContext, inputTokens: number, asked: CallBounds, words: CallWords) {
    this.#runContext = runContext;
    this.#inputTokens = inputTokens;
    this.#asked = asked;
    this.#record = new CallRecord(runContext, words);
  }

  /** Told of what happens to the call. */
  get observer(): CallObserver {
    return this.#record.observed(callObserver(this.#runContext.metrics));
  }

  /** The images that the call is shown. */
  shows(images: ImagesOfCall): ImagesOfCall {
    this.#record.shows(images);
    return images;
  }

  /** The limit that ended the call while the model spoke; null when none did. */
  get breach(): Breach | null {
    return this.#try?.count.breach ?? null;
  }

  /** The route that was called last. */
  get route(): ModelRoute {
    return this.#try?.route ?? this.#runContext.step.route;
  }

  /** Asks for what the call may use of the budget that the run shares; null when there is some: see `RunBudget.borrow`. */
  async borrow(): Promise<Breach | "gone" | null> {
    const { spec } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const { max_tokens, routes } = this.#asked;
    const largest = max_tokens ?? routes[0]?.max_output_tokens ?? assumedOutputTokens;
    const borrowed = await budget.borrow(this.#inputTokens, largest, dearest(spec, routes));
    if (borrowed === "gone" || "limit" in borrowed) return borrowed;
    this.#borrowed = borrowed;
    return null;
  }

  /** Gives back what was borrowed and is not used. */
  repay(): void {
    if (this.#borrowed !== null) this.#runContext.billing.budget.repay(this.#borrowed);
    this.#borrowed = null;
  }

  /** The same, for calls beside the conversation's own. Throws LimitReached. */
  async borrowed(): Promise<void> {
    const breach = await this.borrow();
    if (breach === "gone") throw new LimitReached({ limit: "max_wall_clock_seconds", detail: "the run above is over" });
    if (breach !== null) throw new LimitReached(breach);
  }

  /**
   * Before another try: what was lent covers one prompt, so that a try which was paid for has used it up. Throws LimitReached. With nobody
   * there to ask, the run is being stopped.
   */
  async again(): Promise<void> {
    this.#endTry();
    if (this.#borrowed === null || this.#borrowed.input === 0) return;
    this.repay();
    const breach = await this.borrow();
    if (breach === null || breach === "gone") return;
    this.#record.end(null, true);
    throw new LimitReached(breach);
  }

  /** Begins a try, and answers the bound that the provider is to be told, null for none. Throws LimitReached. */
  begin(route: ModelRoute): number | null {
    this.#endTry();
    const { spec, deps } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const { max_tokens, routes } = this.#asked;
    const price = dearest(spec, routes);
    const reserved = budget.reserve(this.#inputTokens, max_tokens, price, deps.env.monotonic(), this.#borrowed);
    if (isBreach(reserved)) {
      this.#record.end(null, true);
      throw new LimitReached(reserved);
    }
    const told = boundFor(route, max_tokens, reserved);
    this.#shownLength = 0;
    this.#try = { route, reserved, count: new OutputCount(budget, reserved, told), isSettled: false };
    this.#record.begin(route, told);
    return told;
  }

  /** Counts text that has come, and answers what of it may be shown. Ends the call when that is not all of it. */
  takeText(delta: string, pieces = 1): string {
    const shown = this.take(delta, pieces);
    this.#shownLength += shown.length;
    return shown;
  }

  /** The same for what is not the answer's text. */
  take(delta: string, pieces = 1): string {
    const kept = this.takeCharacters(delta.length, pieces);
    return kept === delta.length ? delta : cutText(delta, kept);
  }

  /** The same for what is not shown: how many characters are within what the call may use. */
  takeCharacters(characters: number, pieces = 1): number {
    if (this.#try === null) return 0;
    this.#record.spoke();
    const { count } = this.#try;
    const kept = count.take(characters, pieces);
    if (count.breach !== null) this.#runContext.stream.call?.abort();
    return kept;
  }

  /** Of all text that has come, what may be shown. */
  shownOf(text: string): string {
    return text.slice(0, this.#shownLength);
  }

  /** The model has answered: what the provider has reported counts, else what was counted here. */
  answered(reply: ModelReply): void {
    const { usage, text, reasoning, tool_calls } = reply;
    const called = this.#try;
    if (called === null) return;
    if (usage !== null) this.#settle(called, usage, false);
    else {
      const ofCalls = tool_calls.reduce((sum, { name, arguments: words }) => sum + name.length + words.length, 0);
      called.count.complete(text.length + reasoning.length + ofCalls);
      this.#settle(called, this.#estimate(called), true);
    }
    this.#record.end(reply, called.count.breach !== null);
  }

  /** The call is over without an answer. */
  failed(): void {
    this.#endTry();
    this.#record.end(null, this.breach !== null);
  }

  /** The try is over without an answer. What it has written by then is counted; of a provider that has said nothing nothing is known. */
  #endTry(): void {
    const called = this.#try;
    if (called === null || called.isSettled) return;
    this.#settle(called, called.count.isEmpty ? null : this.#estimate(called), true);
  }

  #estimate({ reserved, count }: Try): TokenCount {
    return { input: reserved.inputTokens, output: count.tokens, cacheRead: 0, cacheWrite: 0 };
  }

  #settle(called: Try, tokens: TokenCount | null, estimated: boolean): void {
    const { metrics, spec, deps, eventLog } = this.#runContext;
    const { budget, meter } = this.#runContext.billing;
    const { route } = called;
    const price = priceOf(spec, route);
    called.isSettled = true;
    budget.settle(called.reserved, tokens, price);
    if (tokens === null) return;
    this.#record.used(tokens, estimated, price);
    // Limits hold by what is estimated, and not at all where no rates are known.
    if (estimated) this.#degraded("svc_model_unmetered_total", "unmetered", route);
    if (price === null) this.#degraded("svc_model_unpriced_total", "unpriced", route);
    metrics.count("svc_tokens_total", { model: route.id, kind: "input" }, tokens.input);
    metrics.count("svc_tokens_total", { model: route.id, kind: "output" }, tokens.output);
    meter.add({
      env: deps.env,
      manifestId: spec.agent.name,
      route,
      price,
      threadId: spec.parent?.root_thread_id ?? eventLog.threadId,
      requestId: spec.request_id,
      tokens,
      estimated,
      aside: this.#asked.aside === true,
      ...(this.#asked.kind && { kind: this.#asked.kind }),
    });
  }

  #degraded(name: "svc_model_unmetered_total" | "svc_model_unpriced_total", reason: string, route: ModelRoute): void {
    const { metrics } = this.#runContext;
    metrics.count(name, { model: route.id });
    metrics.count("svc_control_degraded_total", { control: "limits", reason });
  }
}

/** Who may answer a call, and how much is asked of them. */
export interface CallBounds {
  readonly routes: readonly ModelRoute[];
  readonly max_tokens: number | null;
  /** Whether it is a question beside the conversation. */
  readonly aside?: boolean;
  /** What its row of usage says that it is. */
  readonly kind?: UsageRow["kind"];
}

/** A call of one route. */
interface Try {
  readonly route: ModelRoute;
  readonly reserved: Reservation;
  readonly count: OutputCount;
  isSettled: boolean;
}

/**
 * The bound that a route's provider is told: what was asked for, and what is left of the limits where the model could write more. A
 * model whose largest output is not known might refuse it, as might one whose window is full: its stream is ended instead.
 */
function boundFor(route: ModelRoute, wanted: number | null, reserved: Reservation): number | null {
  const { max_output_tokens: largest, parameters, context_window } = route;
  if (parameters?.every((name) => name === "temperature")) return null;
  const left = reserved.outputTokensMax;
  if (wanted !== null) return Math.min(wanted, left, largest ?? left);
  if (largest === null || left >= largest) return null;
  return reserved.inputTokens + left <= context_window ? left : null;
}

/** The rates of a route in this run: the manifest's own prices are for the manifest's own model. */
function priceOf(spec: RunSpec, route: ModelRoute): ModelPrice | null {
  return route.id === spec.agent.model.route.id && !route.decides ? spec.agent.model.price : route.price;
}

/** The rates to set money aside by: whoever answers, it will not cost more. */
function dearest(spec: RunSpec, routes: readonly ModelRoute[]): ModelPrice | null {
  let price: ModelPrice | null = null;
  for (const route of routes) {
    const candidate = priceOf(spec, route);
    if (candidate === null) continue;
    price =
      price === null
        ? candidate
        : {
            input: Math.max(price.input, candidate.input),
            output: Math.max(price.output, candidate.output),
            cache_read: Math.max(price.cache_read, candidate.cache_read),
            cache_write: Math.max(price.cache_write, candidate.cache_write),
          };
  }
  return price;
}
