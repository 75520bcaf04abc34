import type { Logger } from "pino";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EmbeddedPage } from "../../bus/frames/embedded-page.ts";
import type { EmbedPage } from "../../bus/protocol/embedder.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { costOf } from "../../governance/usage.ts";
import type { EmbeddingRoute } from "../../manifests/registries.ts";
import type { Store } from "../../storage/store/store.ts";
import { insertUsageOp, usageMeta } from "../../storage/tables/usage.ts";
import { callRoute } from "../models/call.ts";
import { callObserver } from "../models/call-observer.ts";
import { type Embedder, type EmbeddingCall, estimatedInputTokens } from "../models/embedder.ts";
import type { Models } from "../models/models.ts";
import { ModelFailure } from "../models/provider.ts";
import type { Cancellation } from "../runtime/cancellation.ts";

/** Dependencies of the embedder actor. */
export interface EmbedderDeps {
  readonly env: Env;
  readonly store: Store;
  readonly models: Models;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** A page of inputs to embed. */
export interface PageTask {
  readonly tenantId: string;
  readonly asked: EmbedPage;
  readonly route: EmbeddingRoute;
  readonly embedder: Embedder;
  readonly cancellation: Cancellation;
}

/** Statuses that mean an invalid request; the caller receives the provider's message. */
const refusals: ReadonlySet<number> = new Set([400, 413, 422]);

/** Embeds a page, writes its usage, and then sends the result on the page's channel. */
export async function makePage(task: PageTask, { bus, deps }: { bus: Bus; deps: EmbedderDeps }): Promise<void> {
  const { asked } = task;
  const page = await answerTo(task, deps);
  const channel = bus.channel(asked.channel);
  while (!channel.writable) await new Promise<void>((resolve) => channel.onWritable(resolve));
  channel.send(JSON.stringify(page), true);
}

async function answerTo(task: PageTask, deps: EmbedderDeps): Promise<EmbeddedPage> {
  const { asked, route, embedder, cancellation } = task;
  const { inputs, dimensions } = asked;
  let call: EmbeddingCall | null = null;
  let wasStopped = false;
  const stopListening = cancellation.onCancel(() => {
    wasStopped = call !== null;
  });
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
    const tokens = await meter(task, deps, reply.tokens);
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
        await meter(task, deps, null).catch((err: unknown) => deps.log.error({ err, ...about }, "unmetered"));
      return { refused: new SvcError("actor_lost").toWire() };
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
  }
}

/** Writes and counts the usage of a call; estimates it from the inputs if the provider reports none. */
async function meter(task: PageTask, { env, store, metrics }: EmbedderDeps, reported: number | null): Promise<number> {
  const { tenantId, asked, route } = task;
  const labels = { manifest_id: "", model: route.id };
  const input = reported ?? estimatedInputTokens(asked.inputs);
  const used = { input, output: 0, cacheRead: 0, cacheWrite: 0 };
  const tenant = store.tenant(tenantId);
  const row = insertUsageOp(tenant, {
    id: env.id(),
    ts: env.now(),
    // Embedding requests belong to no manifest.
    manifest_id: "",
    model_id: route.id,
    wire_model_id: route.model,
    kind: "tokens",
    tokens_input: input,
    tokens_output: 0,
    cache_creation: 0,
    cache_read: 0,
    cost_usd: costOf(used, route.price).total,
    thread_id: "",
    meta_json: usageMeta({
      provider: route.provider,
      request_id: asked.request_id,
      estimated: reported === null,
    }),
  });
  await tenant.write([row]);
  metrics.count("svc_tokens_total", { ...labels, kind: "input" }, input);
  if (reported === null) metrics.count("svc_model_unmetered_total", labels);
  if (route.price === null) metrics.count("svc_model_unpriced_total", labels);
  return input;
}
