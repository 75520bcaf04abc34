import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { embeddedCharsMax, unitVectors } from "../../governance/vectors/unit-vectors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { QueuedContent } from "../../storage/tables/text-corpus.ts";
import { type Corpus, leaveWithoutVectors, storeVectors } from "../../storage/tables/vectors.ts";
import type { Cancellation } from "../runtime/cancellation.ts";
import { type EmbedderDeps, embedPage } from "./page.ts";

/** Texts of one call. */
const pageTexts = 32;
/** Max characters of one call, not counting its first text. */
const pageCharsMax = 64 * 1024;

/**
 * Embeds the queued texts of a tenant and stores their vectors, page by page. A failure of the embedder ends the work; the texts
 * stay in the queue, and a later `index` continues. A text that the embedder refuses alone gets no vector.
 */
export async function indexTexts(tenantId: string, deps: EmbedderDeps, cancellation: Cancellation): Promise<void> {
  const tenant = deps.store.tenant(tenantId);
  try {
    if ((await deps.textVectors.whyOff()) !== null) return;
    for (const corpus of deps.textVectors.corpora)
      for (;;) {
        const texts = await corpus.queued(tenant, pageTexts);
        if (texts.length === 0 || cancellation.cancelled) break;
        const isDone = await deps.indexing.run(() =>
          indexPage(tenant, corpus.corpus, firstOf(texts), deps, cancellation),
        );
        if (!isDone) return;
        await breathe(deps.env);
      }
  } catch (error) {
    deps.log.warn({ err: error, tenant_id: tenantId }, "vectors of stored texts: the work continues in a minute");
  }
}

/** Returns false if the embedder fails. */
async function indexPage(
  tenant: TenantStore,
  corpus: Corpus,
  texts: readonly QueuedContent[],
  deps: EmbedderDeps,
  cancellation: Cancellation,
): Promise<boolean> {
  const { embedder: model } = deps.textVectors;
  const route = deps.models.memoryEmbedding;
  if (model === null || route === null) return false;
  // The text was deleted after it was queued.
  const gone = texts.filter(({ text }) => text === null || text.trim() === "");
  if (gone.length > 0) await leaveWithoutVectors(tenant, corpus, gone);
  const present = texts.filter((text) => !gone.includes(text));
  if (present.length === 0) return true;
  const inputs = present.map(({ text }) => (text as string).slice(0, embeddedCharsMax));
  const asked = { id: deps.env.id(), model: null, inputs, dimensions: model.dimensions, request_id: "" };
  const embedder = deps.models.embedder(route);
  const page = await embedPage({ tenantId: tenant.tenantId, asked, route, embedder, cancellation }, deps);
  if ("refused" in page) {
    const refusal = SvcError.fromWire(page.refused);
    if (refusal.code !== "embedding_refused") {
      const reason = refusal.details.detail ?? refusal.message;
      deps.log.warn({ tenant_id: tenant.tenantId, reason }, "stored texts get no vectors: the embedder fails");
      return false;
    }
    if (present.length === 1) await leaveWithoutVectors(tenant, corpus, present);
    // One text may be the cause.
    else for (const text of present) if (!(await indexPage(tenant, corpus, [text], deps, cancellation))) return false;
    return true;
  }
  const vectors = unitVectors(page, present.length);
  const made = present.flatMap(({ key, ts }, at) => {
    const vector = vectors[at] ?? null;
    return vector === null ? [] : [{ key, ts, vector }];
  });
  if (made.length > 0) await storeVectors(tenant, corpus, model, made);
  const without = present.filter((_, at) => (vectors[at] ?? null) === null);
  if (without.length > 0) await leaveWithoutVectors(tenant, corpus, without);
  return true;
}

function firstOf(texts: readonly QueuedContent[]): readonly QueuedContent[] {
  let chars = 0;
  const end = texts.findIndex(({ text }, at) => {
    chars += Math.min(embeddedCharsMax, text?.length ?? 0);
    return at > 0 && chars > pageCharsMax;
  });
  return end < 0 ? texts : texts.slice(0, end);
}
