import { breathe } from "../../../bus/env.ts";
import { endOfPage } from "../../../bus/protocol/embedder.ts";
import { isBreach } from "../../../governance/budget.ts";
import type { EmbeddingRoute } from "../../../manifests/registries.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import { callRoute } from "../../models/call.ts";
import { callObserver } from "../../models/call-observer.ts";
import { type EmbeddingCall, type EmbeddingReply, estimatedInputTokens, floatBytes } from "../../models/embedder.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import type { RunContext } from "../context/run-context.ts";
import { cosine, type Direction, directionAt, textDigest } from "../prompt/vector-memory.ts";

// Similarity of messages to a query by embeddings. The vector of a message is computed once and cached. Vectors that exceed the time or the
// limits of the run are left to a later turn.

/** Max characters of a message that are embedded. */
const charsMax = 4_000;
/** Max time that a turn waits for vectors. */
const waitMs = 10_000;
/** Concurrent embedding calls. */
const callsAtOnce = 3;
/** Vectors may use this fraction (one fourth) of the run's remaining limits; the rest is for model calls. */
const shareOfLimits = 4;
/** Messages compared between two pauses: a few milliseconds at most. */
const comparedAtOnce = 64;

const digests = new WeakMap<ContextMessage, string>();

/**
 * Returns a score for each message, 0 for one without a vector. Null if no embedding route exists or is usable now; the caller then
 * compares words.
 */
export async function likenesses(
  runContext: RunContext,
  messages: readonly ContextMessage[],
  query: string,
  pause: () => Promise<void>,
  route: EmbeddingRoute | null = runContext.deps.models.memoryEmbedding,
): Promise<number[] | null> {
  const { deps, spec } = runContext;
  const { vectors, env } = deps;
  if (route === null || messages.length === 0 || vectors.isResting(route, env.monotonic())) return null;
  if (route.price === null && spec.agent.manifest.spec.limits.max_cost_usd !== null) return null;
  const asked = textOf(query);
  if (asked === "") return null;
  const texts = new Map([[textDigest(asked), asked]]);
  // Newest first, so that the oldest messages are left out when the limits do not suffice for all.
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

/** Compares texts that are no messages by an embedding route; see `likenesses`. */
export function compare(
  runContext: RunContext,
  query: string,
  texts: readonly string[],
  route: string,
): Promise<number[] | null> {
  const messages = texts.map((content) => contextMessage({ role: "user", content }));
  const { env, models } = runContext.deps;
  return likenesses(runContext, messages, query, () => breathe(env), models.embeddings.get(route) ?? null);
}

/** Computes missing vectors of texts, keyed by digest, in their order and within limits and time. */
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
      // Gives up the remaining texts.
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
  // The first reply determines the length of the vectors, and with it the page size.
  if (vectors.formOf(route) === null) await next();
  // With a budget shared with a parent run, only one call runs at a time.
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

/** Makes one embedding call within the limits of the run, and counts its usage. Null if it is not allowed or has failed. */
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
  // A parent budget also reserves output, so one token is requested.
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
    // The call was stopped after it had started, so the provider may charge for it.
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
