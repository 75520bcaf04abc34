import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { DocumentFiles } from "../../storage/files/document-files.ts";
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
  /** The file with the text; absent for a text without one. */
  readonly file?: { readonly media_type: string; readonly bytes: Uint8Array };
}

/** Services of an ingest. */
export interface IngestDeps {
  readonly env: Env;
  readonly store: Store;
  readonly compute: Pick<ComputePool, "run">;
  readonly settings: Pick<Settings, "documentsMaxPerTenant" | "tenantStoredBytes">;
  readonly textVectors: TextVectors;
  readonly documentFiles: DocumentFiles;
}

/** Refusals after which nothing of the document was written. */
const refusals: readonly string[] = ["documents_full", "storage_quota_exceeded"];

/**
 * Stores a document, or replaces the one with the same source and title. Refuses with document_too_long, documents_full,
 * storage_quota_exceeded, deadline_exceeded, conflict and, with a file, object_store_unavailable.
 */
export async function ingest(
  tenantId: string,
  { title, source, metadata, text, file, charsMax, overlapChars }: GivenDocument,
  { env, store, compute, settings, textVectors, documentFiles }: IngestDeps,
): Promise<{ doc_id: string; chunks: number }> {
  const task = { text, tenantId, chunksMax, charsMax, overlapChars };
  const chunks = await compute.run(chunkJob, task).catch((error: unknown) => {
    throw new SvcError("deadline_exceeded", {}, { cause: error });
  });
  if (chunks === null) throw new SvcError("document_too_long");
  const { documentsMaxPerTenant: documentsMax, tenantStoredBytes: limit } = settings;
  const tenant = store.tenant(tenantId);
  const doc_id = documentId(source, title);
  const draft = file === undefined ? null : await documentFiles.draft(tenant, { doc_id, ...file });
  const written = { title, source, metadata, chars: text.length, chunks, fileId: draft?.file_id ?? null };
  const isWritten = await untilFirst(env, async () => {
    const limits = {
      ...{ now: env.now(), documentsMax, limit, vectorBytes: textVectors.bytesOfText },
      queueOps: (keys: readonly number[], ts: number) => textVectors.queueOps(tenant, "documents", keys, ts),
    };
    return (await writeDocument(store, tenantId, written, limits)) || null;
  }).catch(async (error: unknown) => {
    // After any other failure the batch may have kept the file, so its draft is left to the sweep.
    if (draft !== null && error instanceof SvcError && refusals.includes(error.code))
      await documentFiles.discard(tenant, draft).catch(() => {});
    throw error;
  });
  if (!isWritten) {
    if (draft !== null) await documentFiles.discard(tenant, draft).catch(() => {});
    throw new SvcError("conflict");
  }
  // The sweep deletes what stays.
  await documentFiles.removeGone(tenant).catch(() => {});
  textVectors.wake(tenantId);
  return { doc_id, chunks: chunks.length };
}
