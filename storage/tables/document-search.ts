import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import { anyWordQuery, wordMatches } from "./corpus-words.ts";
import { type DocumentRow, keysOfDocument } from "./documents.ts";
import { fuse } from "./fusion.ts";
import { nearestSearch, type QueryVector } from "./vectors.ts";

// Searches the chunks of documents by their words and by their vectors. Words carry the mark of their tenant, as in search.ts.

/** A chunk that a search found. */
export interface DocumentHit extends Pick<DocumentRow, "title" | "source" | "metadata"> {
  readonly doc_id: string;
  readonly chunk_index: number;
  readonly content: string;
  /** The sum over the channels of 1 / (5 + rank), as in reciprocal rank fusion. */
  readonly score: number;
  readonly channels: readonly ("lexical" | "vector")[];
}

/** Narrows a search to documents whose source has the prefix, and whose metadata has all these values. */
export interface DocumentFilter {
  readonly source_prefix?: string;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
}

/** Hits of each channel for each result of the search. */
const depth = 4;

const matches = wordMatches("document_search", "chunk_key");
const joins = `JOIN document_chunks c ON c.chunk_key = hit.chunk_key
  JOIN documents d ON d.document_key = c.chunk_key / ${keysOfDocument}
  WHERE c.tenant_id = :tenant AND d.tenant_id = :tenant`;
const selectHits = tenantSql("document_hits", {
  sqlite: hitsFrom(matches.sqlite),
  postgres: hitsFrom(matches.postgres),
});
const hasMetadata = {
  sqlite: `NOT EXISTS (SELECT 1 FROM json_each(?) wanted WHERE NOT EXISTS
    (SELECT 1 FROM json_each(d.metadata) has WHERE has.key = wanted.key AND has.value IS wanted.value AND has.type = wanted.type))`,
  postgres: "CAST(d.metadata AS jsonb) @> CAST(? AS jsonb)",
};
const hasPrefix = "substr(d.source, 1, CAST(? AS INTEGER)) = ?";
const selectFiltered = tenantSql("document_hits_filtered", {
  sqlite: filteredFrom(matches.sqlite, hasMetadata.sqlite),
  postgres: filteredFrom(matches.postgres, hasMetadata.postgres),
});
const ofKeys = {
  sqlite: "(SELECT value FROM json_each(?) wanted)",
  postgres: "(SELECT CAST(value AS BIGINT) FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))",
};
const selectChunks = tenantSql("document_chunks_of_keys", {
  sqlite: chunksIn(ofKeys.sqlite),
  postgres: chunksIn(ofKeys.postgres),
});
const nearest = nearestSearch("document_nearest", "documents");
const nearestFiltered = nearestSearch("document_nearest_filtered", "documents", {
  sqlite: nearFilter(hasMetadata.sqlite),
  postgres: nearFilter(hasMetadata.postgres),
});

function hitsFrom(found: string): string {
  return `SELECT c.chunk_key FROM (${found} ORDER BY score DESC, chunk_key LIMIT ?) hit ${joins}
    ORDER BY hit.score DESC, hit.chunk_key`;
}

function filteredFrom(found: string, metadata: string): string {
  return `SELECT c.chunk_key FROM (${found}) hit ${joins} AND ${hasPrefix} AND ${metadata}
    ORDER BY hit.score DESC, hit.chunk_key LIMIT ?`;
}

function chunksIn(keys: string): string {
  return `SELECT c.chunk_key, d.id, d.title, d.source, d.metadata, c.content FROM document_chunks c
    JOIN documents d ON d.document_key = c.chunk_key / ${keysOfDocument}
    WHERE c.tenant_id = :tenant AND d.tenant_id = :tenant AND c.chunk_key IN ${keys}`;
}

function nearFilter(metadata: string): string {
  return `EXISTS (SELECT 1 FROM documents d WHERE d.tenant_id = v.tenant_id AND d.document_key = v.key / ${keysOfDocument}
    AND ${hasPrefix} AND ${metadata})`;
}

/**
 * Returns the chunks that match best: those with at least one word of `query`, and with a vector also the nearest ones. Without
 * one only words count.
 */
export async function searchDocuments(
  store: TenantStore,
  query: string,
  vector: QueryVector | null,
  limit: number,
  { source_prefix = "", metadata = {} }: DocumentFilter = {},
): Promise<DocumentHit[]> {
  const words = anyWordQuery(store.tenantId, query);
  const isFiltered = source_prefix !== "" || Object.keys(metadata).length > 0;
  const filter = [[...source_prefix].length, source_prefix, JSON.stringify(metadata)];
  const wanted = limit * depth;
  const byWords = async (): Promise<number[]> => {
    if (words === null) return [];
    const rows = isFiltered
      ? await store.readLong(selectFiltered, words, ...filter, wanted)
      : await store.readLong(selectHits, words, wanted);
    return rows.map(({ chunk_key }) => Number(chunk_key));
  };
  const byVector = async (): Promise<number[]> => {
    if (vector === null) return [];
    const found = isFiltered
      ? await nearestFiltered(store, vector, wanted, filter)
      : await nearest(store, vector, wanted);
    return found.map(({ key }) => key);
  };
  const [lexical, near] = await Promise.all([byWords(), byVector()]);
  const fused = fuse({ lexical, vector: near }, limit);
  if (fused.length === 0) return [];
  const rows = await store.read(selectChunks, JSON.stringify(fused.map(({ key }) => key)));
  const byKey = new Map(rows.map((row) => [Number(row.chunk_key), row]));
  return fused.flatMap(({ key, score, channels }) => {
    const row = byKey.get(key);
    // The document was replaced after its chunk was found.
    if (row === undefined) return [];
    return [
      {
        doc_id: row.id as string,
        title: row.title as string,
        source: row.source as string,
        metadata: JSON.parse(row.metadata as string) as DocumentHit["metadata"],
        chunk_index: key % keysOfDocument,
        content: row.content as string,
        score,
        channels,
      },
    ];
  });
}
