import { endOfPage } from "../../../bus/protocol/embedder.ts";
import { isBreach } from "../../../governance/budget.ts";
import type { EmbeddingRoute } from "../../../manifests/registries.ts";
import type { ContextMessage } from "../../log/message.ts";
import { callRoute } from "../../models/call.ts";
import { callObserver } from "../../models/call-observer.ts";
import { type EmbeddingCall, type EmbeddingReply, estimatedInputTokens, floatBytes } from "../../models/embedder.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import type { RunContext } from "../context/run-context.ts";
import { cosine, type Direction, directionAt, textDigest } from "../prompt/vector-memory.ts";

// How like messages are to what is asked, by their vectors. A message is made a vector of once and remembered; what cannot be had in time
// or within the limits of the run is left for a later turn.

/** Characters of a message that its vector is made of. */
const charsMax = 4_000;
/** How long a turn waits for vectors. */
const waitMs = 10_000;
/** Calls at a time. */
const callsAtOnce = 3;
/** Of what the run has left, vectors may use one part in so many: the model is to be asked with the rest. */
const shareOfLimits = 4;
/** Messages that are compared before others have their turn: some milliseconds of work at the most. */
const comparedAtOnce = 64;

const digests = new WeakMap<ContextMessage, string>();

/**
 * A score for each message, 0 for those without a vector. Null where there is no embedding route, or none that may or can be asked now:
 * then words are compared.
 */
export async function likenesses(
  runContext: RunContext,
  messages: readonly ContextMessage[],
  query: string,
  pause: () => Promise<void>,
): Promise<number[] | null> {
  const { deps, spec } = runContext;
  const { models, vectors, env } = deps;
  const route = models.memoryEmbedding;
  if (route === null || messages.length === 0 || vectors.isResting(route, env.monotonic())) return null;
  if (route.price === null && spec.agent.manifest.spec.limits.max_cost_usd !== null) return null;
  const asked = textOf(query);
  if (asked === "") return null;
  const texts = new Map([[textDigest(asked), asked]]);
  // The newest first: of what there is no room for the oldest is left.
  for (const [count, message] of messages.toReversed().entries()) {
    if (textOf(message.content) !== "") texts.set(digestOf(message), textOf(message.content));
    if (count % comparedAtOnce === comparedAtOnce - 1) await pause();
  }
  await remember(runContext, route, texts);
  const find = (digest: string): Direction | null => vectors.find(spec.principal.tenant_id, route, digest);
  const wanted = find(textDigest(asked));
  if (wanted === null) return null;
  const scores: number[] = [];
  for (const message of messages) {
    const found = textOf(message.content) === "" ? null : find(digestOf(message));
    scores.push(found === null ? 0 : cosine(wanted, found));
    if (scores.length % comparedAtOnce === 0) await pause();
  }
  return scores;
}

/** Has vectors made of those texts that have none, by their digests and in their order, as far as limits and time allow. */
async function remember(
  runContext: RunContext,
  route: EmbeddingRoute,
  texts: ReadonlyMap<string, string>,
): Promise<void> {
  const { deps, spec } = runContext;
  const { budget } = runContext.billing;
  const { vectors, env } = deps;
  const { tenant_id } = spec.principal;
  const missing = withinLimits(
    runContext,
    route,
    [...texts].filter(([digest]) => vectors.find(tenant_id, route, digest) === null),
  );
  if (missing.length === 0) return;
  const cancellation = new Cancellation();
  const timer = env.timer(waitMs, () => cancellation.cancel());
  const stopListening = runContext.cancellation.onCancel(() => cancellation.cancel());
  const inputs = missing.map(([, text]) => text);
  let from = 0;
  const next = async (): Promise<void> => {
    const page = missing.slice(from, endOfPage(inputs, from, vectors.formOf(route)));
    const pageInputs = inputs.slice(from, from + page.length);
    from += page.length;
    const reply = await embed(runContext, route, pageInputs, cancellation);
    if (reply === null) {
      // What is left is left out.
      from = missing.length;
      return;
    }
    vectors.learn(route, reply);
    for (const [at, [digest]] of page.entries())
      vectors.keep(
        tenant_id,
        route,
        digest,
        directionAt(reply.vectors, at * reply.dimensions * floatBytes, reply.dimensions),
      );
  };
  const work = async (): Promise<void> => {
    while (from < missing.length && !cancellation.cancelled) await next();
  };
  // The first call says how long the vectors are.
  if (vectors.formOf(route) === null) await next();
  // Of a budget that is another's one call at a time is made.
  await Promise.all(Array.from({ length: budget.parentBudget?.binds ? 1 : callsAtOnce }, work));
  timer.cancel();
  stopListening();
}

function withinLimits(
  { spec, billing: { budget } }: RunContext,
  { price }: EmbeddingRoute,
  texts: readonly (readonly [string, string])[],
): readonly (readonly [string, string])[] {
  const { limits } = spec.agent;
  const { input_tokens, cost_usd } = budget.spent;
  const payable =
    price === null || price.input === 0 ? Infinity : ((limits.max_cost_usd - cost_usd) * 1e6) / price.input;
  let left = Math.min(limits.max_input_tokens - input_tokens, payable) / shareOfLimits;
  const end = texts.findIndex(([, text]) => {
    left -= estimatedInputTokens([text]);
    return left < 0;
  });
  return end < 0 ? texts : texts.slice(0, end);
}

/** One call, in the limits, the budget and the usage of the run. Null where it may not be made, or has failed. */
async function embed(
  runContext: RunContext,
  route: EmbeddingRoute,
  inputs: readonly string[],
  cancellation: Cancellation,
): Promise<EmbeddingReply | null> {
  const { deps } = runContext;
  const { budget } = runContext.billing;
  const { env, models, vectors, log } = deps;
  const estimate = estimatedInputTokens(inputs);
  // Whoever lends lends output too, of which at least a token is asked for.
  const borrowed = budget.parentBudget === null ? null : await budget.borrow(estimate, 1, route.price);
  if (borrowed === "gone" || (borrowed !== null && "limit" in borrowed)) return null;
  const reserved = budget.reserve(estimate, 0, route.price, env.monotonic(), borrowed);
  if (isBreach(reserved)) {
    if (borrowed !== null) budget.repay(borrowed);
    return null;
  }
  let call: EmbeddingCall | null = null;
  let wasStopped = false;
  const stopListening = cancellation.onCancel(() => {
    wasStopped = call !== null;
  });
  let tokens: number | null = null;
  try {
    const embedder = models.embedder(route);
    const reply = await callRoute(
      {
        start: () => embedder.start({ route, inputs, dimensions: null }),
        cancellation,
        observer: callObserver(runContext.metrics),
        isCut: () => false,
        onCall: (started: EmbeddingCall | null) => {
          call = started;
        },
      },
      route,
      env,
    );
    tokens = reply.tokens ?? estimate;
    count(runContext, route, tokens, reply.tokens === null);
    return reply;
  } catch (error) {
    // The provider was at work for a turn that did not wait.
    if (wasStopped) {
      tokens = estimate;
      count(runContext, route, tokens, true);
    }
    if (runContext.cancellation.cancelled) return null;
    vectors.rest(route, env.monotonic());
    log.warn(
      { err: error, model: route.id, request_id: runContext.spec.request_id },
      "no embeddings: texts are compared by their words",
    );
    return null;
  } finally {
    stopListening();
    const used = tokens === null ? null : { input: tokens, output: 0, cacheRead: 0, cacheWrite: 0 };
    budget.settle(reserved, used, route.price);
    if (borrowed !== null) budget.repay(borrowed);
  }
}

function count(runContext: RunContext, route: EmbeddingRoute, input: number, estimated: boolean): void {
  const { metrics, spec, deps, eventLog } = runContext;
  const { meter } = runContext.billing;
  metrics.count("svc_tokens_total", { model: route.id, kind: "input" }, input);
  if (estimated) metrics.count("svc_model_unmetered_total", { model: route.id });
  if (route.price === null) metrics.count("svc_model_unpriced_total", { model: route.id });
  meter.add({
    env: deps.env,
    manifestId: spec.agent.name,
    route,
    price: route.price,
    threadId: spec.parent?.root_thread_id ?? eventLog.threadId,
    requestId: spec.request_id,
    tokens: { input, output: 0, cacheRead: 0, cacheWrite: 0 },
    estimated,
    aside: true,
  });
}

function textOf(content: string): string {
  return content.slice(0, charsMax).trim();
}

function digestOf(message: ContextMessage): string {
  let digest = digests.get(message);
  if (digest === undefined) {
    digest = textDigest(textOf(message.content));
    digests.set(message, digest);
  }
  return digest;
}
