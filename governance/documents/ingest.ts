import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Store } from "../../storage/store/store.ts";
import { chunksMax, type DocumentRow, documentId, writeDocument } from "../../storage/tables/documents.ts";
import { untilFirst } from "../../storage/tables/until-first.ts";
import type { ComputePool } from "../compute/compute-pool.ts";
import type { Settings } from "../settings/settings.ts";
import type { TextVectors } from "../vectors/text-vectors.ts";
import { chunkJob } from "./chunk-job.ts";
import type { ChunkRule } from "./chunks.ts";

/** A document to store. */
export interface GivenDocument extends Pick<DocumentRow, "title" | "source" | "metadata">, ChunkRule {
  readonly text: string;
}

/** Services of an ingest. */
export interface IngestDeps {
  readonly env: Env;
  readonly store: Store;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: Pick<Settings, "documentsMaxPerTenant" | "tenantStoredBytes">;
  readonly textVectors: TextVectors;
}

/**
 * Stores a document, or replaces the one with the same source and title. Refuses with document_too_long, documents_full,
 * storage_quota_exceeded, deadline_exceeded and
 * conflict.
 */
export async function ingest(
  tenantId: string,
  { title, source, metadata, text, charsMax, overlapChars }: GivenDocument,
  { env, store, compute, settings, textVectors }: IngestDeps,
): Promise<{ doc_id: string; chunks: number }> {
  const task = { text, tenantId, chunksMax, charsMax, overlapChars };
  const chunks = await compute.run(chunkJob, task).catch((error: unknown) => {
    throw new SvcError("deadline_exceeded", {}, { cause: error });
  });
  if (chunks === null) throw new SvcError("document_too_long");
  const written = { title, source, metadata, chars: text.length, chunks };
  const { documentsMaxPerTenant: documentsMax, tenantStoredBytes: limit } = settings;
  const tenant = store.tenant(tenantId);
  const isWritten = await untilFirst(env, async () => {
    const limits = {
      ...{ now: env.now(), documentsMax, limit, vectorBytes: textVectors.bytesOfText },
      queueOps: (keys: readonly number[], ts: number) => textVectors.queueOps(tenant, "documents", keys, ts),
    };
    return (await writeDocument(store, tenantId, written, limits)) || null;
  });
  if (!isWritten) throw new SvcError("conflict");
  textVectors.wake(tenantId);
  return { doc_id: documentId(source, title), chunks: chunks.length };
}
