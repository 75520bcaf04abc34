import type { Logger } from "pino";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EmbeddedPage } from "../../bus/frames/embedded-page.ts";
import type { EmbedPage } from "../../bus/protocol/embedder.ts";
import type { Semaphore } from "../../bus/queues/semaphore.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { costOf } from "../../governance/usage.ts";
import type { TextVectors } from "../../governance/vectors/text-vectors.ts";
import type { EmbeddingRoute } from "../../manifests/registries.ts";
import type { Store } from "../../storage/store/store.ts";
import { insertUsageOp, usageMeta } from "../../storage/tables/usage.ts";
import { callRoute } from "../models/call.ts";
import { callObserver } from "../models/call-observer.ts";
import { type Embedder, type EmbeddingCall, estimatedInputTokens } from "../models/embedder.ts";
import type { Models } from "../models/models.ts";
import { ModelFailure } from "../models/provider.ts";
import type { Cancellation } from "../runtime/cancellation.ts";
import { type CallSpending, PaidCall, spendOf } from "../spending/one-call.ts";
import { nothing } from "../spending/shares.ts";

/** Dependencies of the embedder actor. */
export interface EmbedderDeps extends CallSpending {
  readonly env: Env;
  readonly store: Store;
  readonly models: Models;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly textVectors: TextVectors;
  /** Limits the pages of stored texts that this thread embeds at once. */
  readonly indexing: Semaphore;
  /** Routes of the deployment's embedder whose model has fixed dimensions. */
  readonly fixedDimensions: Set<string>;
}

/** A page of inputs to embed. */
export interface PageTask {
  readonly tenantId: string;
  readonly asked: Omit<EmbedPage, "channel">;
  readonly route: EmbeddingRoute;
  readonly embedder: Embedder;
  readonly cancellation: Cancellation;
}

/** Statuses that mean an invalid request; the caller receives the provider's message. */
const refusals: ReadonlySet<number> = new Set([400, 413, 422]);

/** Embeds a page, writes its usage, and then sends the result on the page's channel. */
export async function makePage(
  task: PageTask & { readonly asked: EmbedPage },
  { bus, deps }: { bus: Bus; deps: EmbedderDeps },
): Promise<void> {
  const page = await embedPage(task, deps);
  const channel = bus.channel(task.asked.channel);
  while (!channel.writable) await new Promise<void>((resolve) => channel.onWritable(resolve));
  channel.send(JSON.stringify(page), true);
}

/** Embeds a page and writes its usage. */
export async function embedPage(task: PageTask, deps: EmbedderDeps): Promise<EmbeddedPage> {
  const { asked, route, embedder, cancellation } = task;
  const { inputs } = asked;
  const isOfDeployment = asked.model === null;
  const tenant = deps.store.tenant(task.tenantId);
  const paid = new PaidCall(spendOf(tenant, { subject: asked.subject ?? "", manifest: "" }, deps));
  const breach = await paid.reserve(estimatedInputTokens(inputs), route.price);
  if (breach !== null) {
    const refusal = new SvcError("budget_exceeded", { detail: breach.detail });
    return { refused: refusal.toWire() };
  }
  const dimensions = isOfDeployment && deps.fixedDimensions.has(route.id) ? null : asked.dimensions;
  let call: EmbeddingCall | null = null;
  let wasStopped = false;
  const stopListening = cancellation.onCancel(() => {
    wasStopped = call !== null;
  });
  /** Returns what a call without usage has reserved. */
  const unpaid = async (): Promise<void> => {
    const ops = paid.settled(nothing);
    // The reservation stays until the period ends.
    if (ops.length > 0)
      await tenant.write([...ops]).catch((err: unknown) => deps.log.warn({ err }, "a reservation was not returned"));
  };
  try {
    const reply = await callRoute(
      {
        start: () => embedder.start({ route, inputs, dimensions }),
        cancellation,
        observer: callObserver(deps.metrics),
        isCut: () => false,
        onCall: (started: EmbeddingCall | null) => {
          call = started;
        },
      },
      route,
      deps.env,
    );
    const tokens = await meter(task, deps, reply.tokens, paid);
    if (isOfDeployment && reply.dimensions !== asked.dimensions)
      throw new SvcError("model_provider_error", {
        detail: `the vectors have ${reply.dimensions} dimensions; set SVC_MEMORY_EMBEDDING_DIM=${reply.dimensions}`,
      });
    const vectors = Buffer.from(reply.vectors.buffer, reply.vectors.byteOffset, reply.vectors.byteLength);
    return {
      vectors: vectors.toString("base64"),
      dimensions: reply.dimensions,
      tokens,
      is_binary: reply.isBinary,
    };
  } catch (error) {
    const about = { request_id: asked.request_id, model: route.id };
    if (cancellation.cancelled) {
      // The provider worked for a caller that disconnected, so meter the call.
      if (wasStopped)
        await meter(task, deps, null, paid).catch((err: unknown) => deps.log.error({ err, ...about }, "unmetered"));
      return { refused: new SvcError("actor_lost").toWire() };
    }
    if (isOfDeployment && dimensions !== null && refusesDimensions(error)) {
      deps.fixedDimensions.add(route.id);
      await unpaid();
      return embedPage(task, deps);
    }
    if (!(error instanceof ModelFailure)) {
      if (!(error instanceof SvcError)) deps.log.error({ err: error, ...about }, "embeddings failed");
      return { refused: SvcError.from(error).toWire() };
    }
    deps.log.warn({ ...about, reason: error.message }, "embeddings failed");
    const code = refusals.has(error.status) ? "embedding_refused" : "model_provider_error";
    return { refused: { code, details: { detail: error.publicMessage } } };
  } finally {
    stopListening();
    await unpaid();
  }
}

/** True if a call failed because the model has fixed dimensions: the provider refused the choice, or ignored it. */
function refusesDimensions(error: unknown): boolean {
  return error instanceof ModelFailure && /dimension/i.test(error.message);
}

/** Writes and counts the usage of a call; estimates it from the inputs if the provider reports none. */
async function meter(
  task: PageTask,
  { env, store, metrics }: EmbedderDeps,
  reported: number | null,
  paid: PaidCall,
): Promise<number> {
  const { tenantId, asked, route } = task;
  const labels = { manifest_id: "", model: route.id };
  const input = reported ?? estimatedInputTokens(asked.inputs);
  const used = { input, output: 0, cacheRead: 0, cacheWrite: 0 };
  const tenant = store.tenant(tenantId);
  const cost_usd = costOf(used, route.price).total;
  const row = insertUsageOp(tenant, {
    id: env.id(),
    ts: env.now(),
    // Embedding requests belong to no manifest.
    manifest_id: "",
    model_id: route.id,
    wire_model_id: route.model,
    kind: asked.model === null ? "embedding" : "tokens",
    tokens_input: input,
    tokens_output: 0,
    cache_creation: 0,
    cache_read: 0,
    cost_usd,
    thread_id: "",
    meta_json: usageMeta({
      provider: route.provider,
      request_id: asked.request_id,
      estimated: reported === null,
    }),
  });
  await tenant.write([row, ...paid.settled({ input_tokens: input, output_tokens: 0, cost_usd })]);
  metrics.count("svc_tokens_total", { ...labels, kind: "input" }, input);
  if (reported === null) metrics.count("svc_model_unmetered_total", labels);
  if (route.price === null) metrics.count("svc_model_unpriced_total", labels);
  return input;
}
