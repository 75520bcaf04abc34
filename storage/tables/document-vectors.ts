import { systemSql, tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { keysOfDocument } from "./documents.ts";
import type { TextCorpus } from "./text-corpus.ts";
import type { VectorModel } from "./vectors.ts";

// The chunks of documents as a corpus with vectors. The vector of a chunk includes the title of its document.

const selectQueued = tenantSql(
  "document_vectors_queued",
  `SELECT q.key, q.ts, d.title, c.content FROM vector_queue q
   LEFT JOIN document_chunks c ON c.tenant_id = q.tenant_id AND c.chunk_key = q.key
   LEFT JOIN documents d ON d.tenant_id = q.tenant_id AND d.document_key = q.key / ${keysOfDocument}
   WHERE q.tenant_id = :tenant AND q.corpus = 'documents' ORDER BY q.key LIMIT ?`,
);
const selectLast = systemSql(
  "document_vectors_last",
  "SELECT MAX(chunk_key) AS key FROM (SELECT chunk_key FROM document_chunks WHERE chunk_key > ? ORDER BY chunk_key LIMIT ?) counted",
);
const queueMissing = systemSql(
  "document_vectors_queue_missing",
  `INSERT INTO vector_queue (tenant_id, corpus, key, ts)
   SELECT c.tenant_id, 'documents', c.chunk_key, d.ts FROM document_chunks c
   JOIN documents d ON d.tenant_id = c.tenant_id AND d.document_key = c.chunk_key / ${keysOfDocument}
   WHERE c.chunk_key > ? AND c.chunk_key <= ? AND NOT EXISTS (SELECT 1 FROM vectors v
     WHERE v.tenant_id = c.tenant_id AND v.corpus = 'documents' AND v.key = c.chunk_key AND v.model = ? AND v.dimensions = ?)
   ON CONFLICT DO NOTHING`,
);
const count = systemSql("document_vectors_count", {
  sqlite: countsOf("vector_bits"),
  postgres: countsOf("vectors"),
});
const countEmbedded = tenantSql("document_vectors_embedded", {
  sqlite: `SELECT wanted.value AS document_key, ${embeddedOf("vector_bits", "wanted.value")} FROM json_each(?) wanted`,
  postgres: `SELECT CAST(wanted.value AS BIGINT) AS document_key, ${embeddedOf("vectors", "CAST(wanted.value AS BIGINT)")}
    FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value)`,
});

function countsOf(table: string): string {
  return `SELECT (SELECT COUNT(*) FROM document_chunks) AS texts,
    (SELECT COUNT(*) FROM ${table} v WHERE v.corpus = 'documents' AND v.model = ? AND v.dimensions = ?) AS embedded,
    (SELECT COUNT(*) FROM vector_queue q WHERE q.corpus = 'documents') AS queued`;
}

function embeddedOf(table: string, key: string): string {
  return `(SELECT COUNT(*) FROM ${table} v WHERE v.tenant_id = :tenant AND v.corpus = 'documents'
    AND v.key >= ${key} * ${keysOfDocument} AND v.key < (${key} + 1) * ${keysOfDocument}
    AND v.model = ? AND v.dimensions = ?) AS embedded`;
}

export const documentCorpus: TextCorpus = {
  corpus: "documents",
  async queued(store, limit) {
    const rows = await store.read(selectQueued, limit);
    return rows.map(({ key, ts, title, content }) => ({
      key: Number(key),
      ts: Number(ts),
      text: content === null || title === null ? null : `${title}\n${content}`,
    }));
  },
  async queueMissing({ system }, { model, dimensions }, after, limit) {
    const [row] = await system.read(selectLast, after, limit);
    if (row === undefined || row.key === null) return null;
    const last = Number(row.key);
    await system.write([system.op(queueMissing, [after, last, model, dimensions])]);
    return last;
  },
  async count({ system }, { model, dimensions }) {
    const [row] = await system.readLong(count, model, dimensions);
    return { texts: Number(row?.texts), embedded: Number(row?.embedded), queued: Number(row?.queued) };
  },
};

/** Returns how many chunks of each document have a vector of the model, by the keys of the documents. */
export async function embeddedChunks(
  store: TenantStore,
  documentKeys: readonly number[],
  { model, dimensions }: VectorModel,
): Promise<ReadonlyMap<number, number>> {
  const rows = await store.readLong(countEmbedded, model, dimensions, JSON.stringify(documentKeys));
  return new Map(rows.map(({ document_key, embedded }) => [Number(document_key), Number(embedded)]));
}
