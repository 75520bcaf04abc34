import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TokenCount } from "../../bus/protocol/model-reply.ts";
import { AgentMetrics } from "../../governance/agent-metrics.ts";
import { checkAnswer } from "../../governance/answer-problem.ts";
import { isBreach, RunBudget } from "../../governance/budget.ts";
import type { Freezes } from "../../governance/freezes.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { estimatedTokens, OutputCount } from "../../governance/output-count.ts";
import { limitOf, periodAt, type Spending } from "../../governance/spending.ts";
import { costOf } from "../../governance/usage.ts";
import type { AnswerSchema } from "../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import {
  type Amount,
  openSpendingOp,
  reserveSpendingOp,
  type SpendingPlace,
  settleSpendingOp,
} from "../../storage/tables/budget-spending.ts";
import { insertUsageOp, type UsageRow } from "../../storage/tables/usage.ts";
import { type ContextMessage, contextMessage } from "../log/message.ts";
import { correctionWords } from "../models/answer-words.ts";
import { callModel } from "../models/call.ts";
import { callObserver } from "../models/call-observer.ts";
import { chatMessages } from "../models/chat-messages.ts";
import type { ImagesOfCall } from "../models/images.ts";
import type { Models } from "../models/models.ts";
import { type ModelCall, ModelFailure, type ModelReply } from "../models/provider.ts";
import type { Cancellation } from "../runtime/cancellation.ts";

/** A question to a model, outside of any run. */
export interface ModelQuestion {
  readonly agent: CompiledAgent;
  readonly route: ModelRoute;
  /** Named in the usage row. */
  readonly purpose: string;
  readonly task: string;
  /** The material: a text as it is, and anything else as JSON, so that no text in it can pass for instructions. */
  readonly given: unknown;
  /** Subject that budgets count, thread and request; empty for none. */
  readonly principal: string;
  readonly thread_id: string;
  readonly request_id: string;
  /** Kind of the usage row; absent for `tokens`. */
  readonly kind?: UsageRow["kind"];
  /** Max output tokens and milliseconds of one call; absent for the defaults. */
  readonly outputTokensMax?: number;
  readonly callMs?: number;
}

/** A question whose reply fits a schema. */
export interface SchemaQuestion extends ModelQuestion {
  readonly answer: AnswerSchema;
}

/** Services for questions. */
export interface QuestionDeps {
  readonly models: Models;
  readonly freezes: Freezes;
  readonly spending: Spending;
  readonly metrics: Metrics;
}

/** Where a question is asked. */
export interface QuestionContext {
  readonly store: TenantStore;
  readonly env: Env;
  readonly deps: QuestionDeps;
  readonly cancellation: Cancellation;
}

/** The limits of the manifest, or a whole budget, do not allow the question, so that a repetition is refused too. */
export class QuestionTooLarge extends Error {
  constructor(limit: string) {
    super(`the question exceeds ${limit}`);
    this.name = "QuestionTooLarge";
  }
}

const outputTokensDefault = 8_192;
/** Max tries for a reply that fits the schema. */
const triesMax = 2;
/** Max characters of a reply that is shown to the model again. */
const repeatedMax = 8_000;
/** Max milliseconds of one call. */
const callMsDefault = 120_000;
const noImages: ImagesOfCall = new Map();

/**
 * Asks the question, and once more if the reply does not fit, or if `problem` finds a fault in it; returns null if that does not fit
 * either. Each call is counted at once, whatever follows it. Rejects with ModelFailure, QuestionTooLarge, frozen, and budget_exceeded
 * for a budget of SVC_BUDGETS.
 */
export async function askModel<V>(
  asked: SchemaQuestion,
  context: QuestionContext,
  problem: (value: V) => Promise<string | null> = async () => null,
): Promise<V | null> {
  const shown = [firstMessage(asked)];
  for (let tries = 1; ; tries++) {
    const text = await new Call(asked, asked.answer, context).made(shown);
    const checked = await checkAnswer(asked.answer, text, context.env);
    const fault = checked.ok ? await problem(checked.value as V) : checked.problem;
    if (checked.ok && fault === null) return checked.value as V;
    if (tries === triesMax) return null;
    shown.push(
      contextMessage({ role: "assistant", content: text.slice(0, repeatedMax) || "(nothing)" }),
      contextMessage({ role: "user", content: correctionWords(fault ?? "", asked.answer) }),
    );
  }
}

/** Asks the question, and returns the reply as a text. Rejects as askModel does. */
export function askForText(asked: ModelQuestion, context: QuestionContext): Promise<string> {
  return new Call(asked, null, context).made([firstMessage(asked)]);
}

function firstMessage({ given }: ModelQuestion): ContextMessage {
  return contextMessage({ role: "user", content: typeof given === "string" ? given : JSON.stringify(given) });
}

/** One call, with its reservation and its usage row. */
class Call {
  readonly #asked: ModelQuestion;
  readonly #answer: AnswerSchema | null;
  readonly #store: TenantStore;
  readonly #env: Env;
  readonly #deps: QuestionDeps;
  readonly #cancellation: Cancellation;

  constructor(asked: ModelQuestion, answer: AnswerSchema | null, { store, env, deps, cancellation }: QuestionContext) {
    this.#asked = asked;
    this.#answer = answer;
    this.#store = store;
    this.#env = env;
    this.#deps = deps;
    this.#cancellation = cancellation;
  }

  async made(shown: readonly ContextMessage[]): Promise<string> {
    const { agent, route, task, principal } = this.#asked;
    const { outputTokensMax = outputTokensDefault, callMs = callMsDefault } = this.#asked;
    const answer = this.#answer;
    await this.#deps.freezes.pending;
    this.#deps.freezes.refuseRun(this.#store.tenantId, principal, agent.name);
    const messages = chatMessages(task, shown);
    const input = estimatedTokens(messages.length);
    const budget = new RunBudget(agent.limits, this.#env.monotonic());
    const reserved = budget.reserve(input, outputTokensMax, route.price, this.#env.monotonic());
    if (isBreach(reserved)) throw new QuestionTooLarge(reserved.limit);
    const max_tokens = Math.min(reserved.outputTokensMax, outputTokensMax);
    const settle = await this.#reserve(input, max_tokens);
    const count = new OutputCount(budget, reserved, outputTokensMax);
    let call: ModelCall | null = null;
    const written = (characters: number, pieces = 1): void => {
      count.take(characters, pieces);
      if (count.breach !== null) call?.abort();
    };
    const deadline = this.#env.timer(callMs, () => call?.abort());
    let reply: ModelReply;
    try {
      ({ reply } = await callModel(
        {
          routes: [route],
          provider: (wanted) => this.#deps.models.provider(wanted),
          request: () => ({
            ...{ route, messages, system: task, shown, images: noImages, tools: null, offers: [], thinking: null },
            ...{ cache: false, temperature: 0, max_tokens, answer },
          }),
          events: {
            text: (delta, pieces) => written(delta.length, pieces),
            reasoning: (delta, pieces) => written(delta.length, pieces),
            calls: written,
          },
          cancellation: this.#cancellation,
          observer: callObserver(new AgentMetrics(this.#deps.metrics, agent)),
          isCut: () => count.breach !== null,
          onCall: (next) => {
            call = next;
          },
        },
        this.#env,
      ));
    } catch (error) {
      // Output of a failed call is metered too.
      const ops =
        error instanceof ModelFailure && !count.isEmpty
          ? this.#metered(null, { input, output: count.tokens }, settle)
          : settle({ tokens: 0, usd: 0 });
      if (ops.length > 0) await this.#store.write(ops).catch(() => {});
      throw error;
    } finally {
      deadline.cancel();
    }
    await this.#store.write(this.#metered(reply.usage, { input, output: estimatedTokens(reply.text.length) }, settle));
    return reply.text;
  }

  /** Reserves the call in the budgets of SVC_BUDGETS. Refuses with budget_exceeded for a spent budget. Returns the operations that settle it. */
  async #reserve(input: number, output: number): Promise<(used: Amount) => WriteOp[]> {
    const { agent, route, principal } = this.#asked;
    const now = this.#env.now();
    const applied = this.#deps.spending.applied(this.#store.tenantId, { sub: principal }, agent.name, now);
    if (applied.length === 0) return () => [];
    const tokens = { input, output, cacheRead: 0, cacheWrite: 0 };
    const wanted = { tokens: input + output, usd: costOf(tokens, route.price).total ?? 0 };
    const whole = applied.find(({ budget }) => isOver(wanted, limitOf(budget)));
    if (whole !== undefined) throw new QuestionTooLarge(`the budget ${whole.budget.id}`);
    const places = applied.map(({ budget, subject }) => ({
      place: { budget_id: budget.id, period_start: periodAt(budget, now).start, subject } satisfies SpendingPlace,
      limit: limitOf(budget),
    }));
    try {
      await this.#store.write(
        places.flatMap(({ place, limit }) => [
          openSpendingOp(this.#store, place),
          reserveSpendingOp(this.#store, place, wanted, limit),
        ]),
      );
    } catch (error) {
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
      throw new SvcError("budget_exceeded", { subject: applied[0]?.budget.id ?? "" });
    }
    return (used) => places.map(({ place }) => settleSpendingOp(this.#store, place, wanted, used));
  }

  /** Counts a call in the metrics. Returns the operations that store its usage and settle its budgets. */
  #metered(
    reported: TokenCount | null,
    estimate: { readonly input: number; readonly output: number },
    settle: (used: Amount) => WriteOp[],
  ): WriteOp[] {
    const { agent, route, purpose, thread_id, request_id, kind = "tokens" } = this.#asked;
    const metrics = new AgentMetrics(this.#deps.metrics, agent);
    if (reported === null) metrics.count("svc_model_unmetered_total", { model: route.id });
    const usage = reported ?? { ...estimate, cacheRead: 0, cacheWrite: 0 };
    metrics.count("svc_tokens_total", { model: route.id, kind: "input" }, usage.input);
    metrics.count("svc_tokens_total", { model: route.id, kind: "output" }, usage.output);
    const cost_usd = costOf(usage, route.price).total;
    const meta = { provider: route.provider, request_id, purpose, ...(reported === null && { estimated: true }) };
    return [
      insertUsageOp(this.#store, {
        ...{ id: this.#env.id(), ts: this.#env.now(), manifest_id: agent.name, model_id: route.id },
        ...{ wire_model_id: route.model, tokens_input: usage.input, tokens_output: usage.output },
        ...{ cache_creation: usage.cacheWrite, cache_read: usage.cacheRead, cost_usd, thread_id },
        kind,
        meta_json: JSON.stringify(meta),
      }),
      ...settle({ tokens: usage.input + usage.output, usd: cost_usd ?? 0 }),
    ];
  }
}

function isOver(wanted: Amount, limit: Amount): boolean {
  return wanted.tokens > limit.tokens || wanted.usd > limit.usd;
}
