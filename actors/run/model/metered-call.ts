import { cutText } from "../../../bus/cut-text.ts";
import type { TokenCount } from "../../../bus/protocol/model-reply.ts";
import { type Borrowed, type Breach, isBreach, type Reservation } from "../../../governance/budget.ts";
import { OutputCount } from "../../../governance/output-count.ts";
import { traceparentOf } from "../../../governance/tracing/tracer.ts";
import { costOf } from "../../../governance/usage.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";
import type { UsageRow } from "../../../storage/tables/usage.ts";
import { type CallObserver, type CallPlan, type CallResult, callModel } from "../../models/call.ts";
import { callObserver } from "../../models/call-observer.ts";
import type { ModelReply, ModelRequest } from "../../models/provider.ts";
import { highestPrice, priceOf } from "../billing/usage-meter.ts";
import type { RunContext } from "../context/run-context.ts";
import { type CallCourse, type CallWords, recordCall } from "./call-record.ts";

/** Max output tokens of a model whose route does not state a bound. */
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
 * One model call with all its tries. Each try first reserves tokens and money. Its output is counted against the reservation as it arrives.
 * Its usage is settled at the end: in the limits of the run, in its usage rows and in the metrics.
 */
export class MeteredCall {
  readonly #runContext: RunContext;
  readonly #inputTokens: number;
  readonly #asked: CallBounds;
  readonly #words: CallWords;
  /** Null once the call is recorded. */
  #course: CallCourse | null;
  #try: Try | null = null;
  #borrowed: Borrowed | null = null;
  #shownLength = 0;

  /** `inputTokens` is the estimate for the prompt; `words` describes the call for its record. */
  constructor(runContext: RunContext, inputTokens: number, asked: CallBounds, words: CallWords) {
    this.#runContext = runContext;
    this.#inputTokens = inputTokens;
    this.#asked = asked;
    this.#words = words;
    this.#course = {
      step: runContext.step.number,
      tries: [],
      route: null,
      max_tokens: null,
      images: null,
      started: 0,
      first_token: null,
      usage: null,
      estimated: false,
      cost_usd: null,
    };
  }

  /** Calls the model. `answered` or `failed` must follow. Rejects like `callModel`, and with LimitReached, which ends the call. */
  call({ request, ...plan }: OwnPlan): Promise<CallResult> {
    const { deps, cancellation, billing, stream } = this.#runContext;
    const asked: CallPlan = {
      routes: this.#asked.routes,
      provider: (route) => deps.models.provider(route),
      cancellation,
      ...plan,
      request: (route) => {
        const sent = request(route, this.#begin(route));
        if (this.#course !== null) this.#course.images = sent.images;
        const { trace } = this.#runContext.spec;
        return trace === undefined ? sent : { ...sent, traceparent: traceparentOf(trace) };
      },
      observer: this.#observer,
      isCut: () => this.breach !== null || this.#runContext.run.isFrozen,
      ...(billing.budget.parentBudget !== null && { again: () => this.#again() }),
      onCall: (call) => {
        stream.call = call;
        if (this.breach !== null) call?.abort();
      },
    };
    return callModel(asked, deps.env);
  }

  /** The limit that ended the call during its output; null for none. */
  get breach(): Breach | null {
    return this.#try?.count.breach ?? null;
  }

  /** The route of the newest try. */
  get route(): ModelRoute {
    return this.#try?.route ?? this.#runContext.step.route;
  }

  /** Reserves the call's share of the parent's budget. Null on success: see `RunBudget.borrow`. */
  async borrow(): Promise<Breach | "gone" | null> {
    const { spec } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const { max_tokens, routes } = this.#asked;
    const largest = max_tokens ?? routes[0]?.max_output_tokens ?? assumedOutputTokens;
    const borrowed = await budget.borrow(this.#inputTokens, largest, highestPrice(spec, routes));
    if (borrowed === "gone" || "limit" in borrowed) return borrowed;
    this.#borrowed = borrowed;
    return null;
  }

  /** Returns the unused part of the reservation to the parent. */
  repay(): void {
    if (this.#borrowed !== null) this.#runContext.billing.budget.repay(this.#borrowed);
    this.#borrowed = null;
  }

  /** Like `borrow`, for calls other than the agent's own steps. Throws LimitReached. */
  async borrowed(): Promise<void> {
    const breach = await this.borrow();
    if (breach === "gone") throw new LimitReached({ limit: "max_wall_clock_seconds", detail: "the run above is over" });
    if (breach !== null) throw new LimitReached(breach);
  }

  /**
   * Prepares another try. A reservation from the parent covers one prompt, and a paid try has used it up. Throws LimitReached. If the
   * parent is gone, this run is already being stopped.
   */
  async #again(): Promise<void> {
    this.#endTry();
    if (this.#borrowed === null || this.#borrowed.input === 0) return;
    this.repay();
    const breach = await this.borrow();
    if (breach === null || breach === "gone") return;
    this.#record(null, true);
    throw new LimitReached(breach);
  }

  /** Starts a try and returns the max_tokens for the provider, null for none. Throws LimitReached. */
  #begin(route: ModelRoute): number | null {
    this.#endTry();
    const { spec, deps } = this.#runContext;
    const { budget } = this.#runContext.billing;
    const { max_tokens, routes } = this.#asked;
    const price = highestPrice(spec, routes);
    const reserved = budget.reserve(this.#inputTokens, max_tokens, price, deps.env.monotonic(), this.#borrowed);
    if (isBreach(reserved)) {
      this.#record(null, true);
      throw new LimitReached(reserved);
    }
    const bound = boundFor(route, max_tokens, reserved);
    this.#shownLength = 0;
    this.#try = { route, reserved, count: new OutputCount(budget, reserved, bound), isSettled: false };
    const course = this.#course;
    if (course === null) return bound;
    if (course.route === null) course.started = deps.env.now();
    course.route = route;
    course.max_tokens = bound;
    return bound;
  }

  /** Counts received text and returns the part within the limits. Aborts the call if that is not all of it. */
  takeText(delta: string, pieces = 1): string {
    const shown = this.take(delta, pieces);
    this.#shownLength += shown.length;
    return shown;
  }

  /** Like `takeText`, for output that is not text of the reply. */
  take(delta: string, pieces = 1): string {
    const kept = this.takeCharacters(delta.length, pieces);
    return kept === delta.length ? delta : cutText(delta, kept);
  }

  /** Like `take`, for output that is not published. Returns the number of characters within the limits. */
  takeCharacters(characters: number, pieces = 1): number {
    if (this.#try === null) return 0;
    if (this.#course !== null) this.#course.first_token ??= this.#runContext.deps.env.now();
    const { count } = this.#try;
    const kept = count.take(characters, pieces);
    if (count.breach !== null) this.#runContext.stream.call?.abort();
    return kept;
  }

  /** Returns the part of the received text that is within the limits. */
  shownOf(text: string): string {
    return text.slice(0, this.#shownLength);
  }

  /** Settles a successful call by the provider's usage, or by the count of its output if the provider reports none. */
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
    this.#record(reply, called.count.breach !== null);
  }

  /** Settles a call that has failed. */
  failed(): void {
    this.#endTry();
    this.#record(null, this.breach !== null);
  }

  /** Counts the outcome of each try in the metrics, and notes it for the record. */
  get #observer(): CallObserver {
    const counting = callObserver(this.#runContext.metrics);
    return {
      ...counting,
      finished: (route, outcome, seconds) => {
        this.#course?.tries.push({ route: route.id, outcome, ms: Math.round(seconds * 1000) });
        counting.finished(route, outcome, seconds);
      },
    };
  }

  /** Records the call, once. */
  #record(reply: ModelReply | null, limited: boolean): void {
    const course = this.#course;
    this.#course = null;
    if (course !== null) recordCall(this.#runContext, this.#words, course, reply, limited);
  }

  /** Settles a try that has failed. Its output so far is counted; a try without any output counts as unused. */
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
    const course = this.#course;
    if (course !== null) {
      course.usage = tokens;
      course.estimated = estimated;
      course.cost_usd = (course.cost_usd ?? 0) + costOf(tokens, price).total;
    }
    // With estimated usage the limits are approximate, and without prices the limit on cost has no effect.
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

/** The parts of a call that differ between callers. `request` gets the max_tokens for the provider, null for none. */
interface OwnPlan extends Pick<CallPlan, "events" | "mendsOverflow">, Partial<Pick<CallPlan, "cancellation">> {
  request(route: ModelRoute, max_tokens: number | null): ModelRequest;
}

/** The candidate routes of a call, and its bounds. */
export interface CallBounds {
  readonly routes: readonly ModelRoute[];
  readonly max_tokens: number | null;
  /** True for a side question, such as one of a pattern. */
  readonly aside?: boolean;
  /** The kind in the usage row. */
  readonly kind?: Exclude<UsageRow["kind"], "embedding" | "skill_eval" | "skill_improve" | "geo">;
}

/** One try of the call with one route. */
interface Try {
  readonly route: ModelRoute;
  readonly reserved: Reservation;
  readonly count: OutputCount;
  isSettled: boolean;
}

/**
 * The max_tokens for a provider: the requested bound, and the rest of the limits if the model could exceed it. Null if the provider might
 * refuse a bound, as with an unknown max output or a full window. The stream is then cut off at the limit instead.
 */
function boundFor(route: ModelRoute, wanted: number | null, reserved: Reservation): number | null {
  const { max_output_tokens: largest, parameters, context_window } = route;
  if (parameters?.every((name) => name === "temperature")) return null;
  const left = reserved.outputTokensMax;
  if (wanted !== null) return Math.min(wanted, left, largest ?? left);
  if (largest === null || left >= largest) return null;
  return reserved.inputTokens + left <= context_window ? left : null;
}
