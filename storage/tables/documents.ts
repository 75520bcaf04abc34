import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, type RowIn, selectOne, table, text } from "../store/table.ts";
import { dropDocumentFileOp, keepDocumentFileOp } from "./document-files.ts";
import { writeStored } from "./stored-bytes.ts";
import { lockTenantOp } from "./tenant-lock.ts";
import { unlessChanged } from "./unless-changed.ts";
import { deleteVectorsOps } from "./vectors.ts";

// Documents of a tenant, divided into chunks. One batch replaces a document with its chunks and words, so that no search sees
// a part of it, and queues the chunks for their vectors. document-search.ts searches them.

const documentTable = table(
  "documents",
  {
    /** Derived from source and title. */
    id: text,
    /** Time of the last ingest, which grows with each. */
    ts: integer,
    /** Globally unique number from which the keys of the chunks are built. */
    document_key: integer,
    title: text,
    source: text,
    metadata: json<Readonly<Record<string, unknown>>>(),
    chunks: integer,
    chars: integer,
    created_at: integer,
    /** Bytes that it counts against the quota. */
    bytes: integer,
  },
  ({ text: title, threadKey: document_key }) => ({
    ...{ id: "row", ts: 5, document_key, title, source: title, metadata: { title }, chunks: 1, chars: 5 },
    ...{ created_at: 5, bytes: 5 },
  }),
);

/** A stored document. */
export type DocumentRow = RowIn<typeof documentTable>;

/** What an ingest stores. */
export interface DocumentWritten extends Pick<DocumentRow, "title" | "source" | "metadata" | "chars"> {
  readonly chunks: readonly DocumentChunk[];
  /** The stored draft of the file from which it was made; null for none. */
  readonly fileId: string | null;
}

/** The limits of an ingest, and what makes vectors of its chunks. */
export interface DocumentLimits {
  readonly now: number;
  readonly documentsMax: number;
  /** Max stored bytes of the tenant; 0 for no limit. */
  readonly limit: number;
  /** Bytes of the vector of a chunk; 0 if chunks get none. */
  readonly vectorBytes: number;
  /** Returns the operations that queue the chunks with these keys. */
  queueOps(keys: readonly number[], ts: number): Promise<WriteOp[]>;
}

/** One chunk: its text, and its words as `indexText` returns them. */
export interface DocumentChunk {
  readonly content: string;
  readonly words: string;
}

/** Max chunks of a document. */
export const chunksMax = 2_000;
/** Keys that each document reserves for its chunks. */
export const keysOfDocument = 2_048;
/** Bytes that a row counts in addition to its text. */
const rowBytes = 256;

const nextKey = systemSql(
  "document_key_next",
  "UPDATE counters SET value = value + 1 WHERE name = 'document_key' RETURNING value",
);
const selectDocument = selectOne(documentTable, ["id"]);
const insertDocument = insertInto(documentTable);
const replaceDocument = tenantSql(
  "document_replace",
  `UPDATE documents SET ts = ?, metadata = ?, chunks = ?, chars = ?, bytes = ? WHERE tenant_id = :tenant AND id = ? AND ts = ?`,
);
const deleteDocument = tenantSql(
  "document_delete",
  "DELETE FROM documents WHERE tenant_id = :tenant AND id = ? AND ts = ?",
);
const selectNth = tenantSql(
  "documents_nth",
  "SELECT 1 AS is_there FROM documents WHERE tenant_id = :tenant ORDER BY id LIMIT 1 OFFSET ?",
);
const keepWithin = tenantSql(
  "document_within_limit",
  `UPDATE documents SET ts = ts WHERE tenant_id = :tenant AND id = ? AND NOT EXISTS
    (SELECT 1 FROM documents other WHERE other.tenant_id = :tenant ORDER BY other.id LIMIT 1 OFFSET ?)`,
);
const insertChunks = tenantSql("document_chunks_insert", {
  sqlite: `INSERT INTO document_chunks (tenant_id, chunk_key, content)
    SELECT :tenant, ? + key, value FROM json_each(?)`,
  postgres: `INSERT INTO document_chunks (tenant_id, chunk_key, content)
    SELECT :tenant, CAST(? AS BIGINT) + place - 1, value
    FROM jsonb_array_elements_text(CAST(? AS jsonb)) WITH ORDINALITY AS chunk (value, place)`,
});
const insertWords = tenantSql("document_search_insert", {
  sqlite: `INSERT INTO document_search (rowid, content)
    SELECT c.chunk_key, words.value FROM json_each(?) words
    JOIN document_chunks c ON c.chunk_key = ? + words.key WHERE c.tenant_id = :tenant`,
  postgres: `INSERT INTO document_search (document, chunk_key, tenant_id)
    SELECT to_tsvector('svc_words', words.value), c.chunk_key, c.tenant_id
    FROM jsonb_array_elements_text(CAST(? AS jsonb)) WITH ORDINALITY AS words (value, place)
    JOIN document_chunks c ON c.chunk_key = CAST(? AS BIGINT) + words.place - 1 WHERE c.tenant_id = :tenant`,
});
const deleteWords = tenantSql("document_search_delete", {
  sqlite: `DELETE FROM document_search WHERE rowid IN
    (SELECT chunk_key FROM document_chunks WHERE tenant_id = :tenant AND chunk_key >= ? AND chunk_key < ?)`,
  postgres: "DELETE FROM document_search WHERE tenant_id = :tenant AND chunk_key >= ? AND chunk_key < ?",
});
const deleteChunks = tenantSql(
  "document_chunks_delete",
  "DELETE FROM document_chunks WHERE tenant_id = :tenant AND chunk_key >= ? AND chunk_key < ?",
);

/** Returns one page of documents, those first that were ingested last. */
export const documentPage = list(documentTable, [], {
  long: { columns: ["metadata"], bytesMax: 4 * 1024 * 1024 },
}).page;

/** Returns the id of the document with this source and title. */
export function documentId(source: string, title: string): string {
  return createHash("sha256")
    .update(JSON.stringify([source, title]))
    .digest("hex")
    .slice(0, 32);
}

/** Returns a document of the tenant. */
export function storedDocument(store: TenantStore, id: string): Promise<DocumentRow | undefined> {
  return selectDocument(store, id);
}

/**
 * Stores a document, or replaces the one with the same source and title. Returns false if another writer was faster.
 * Refuses with documents_full beyond `documentsMax` documents, and with storage_quota_exceeded beyond `limit` bytes, 0 for
 * no limit.
 */
export async function writeDocument(
  store: Store,
  tenantId: string,
  written: DocumentWritten,
  { now, documentsMax, limit, vectorBytes, queueOps }: DocumentLimits,
): Promise<boolean> {
  const tenant = store.tenant(tenantId);
  const { title, source, metadata, chars } = written;
  const id = documentId(source, title);
  const before = await storedDocument(tenant, id);
  if (before === undefined && (await tenant.read(selectNth, documentsMax - 1)).length > 0)
    throw new SvcError("documents_full");
  const document_key = before?.document_key ?? (await newKey(store));
  const chunks = written.chunks.length;
  const bytes = bytesOf(written) + chunks * vectorBytes;
  const ts = before === undefined ? now : Math.max(now, before.ts + 1);
  const row = { id, ts, document_key, title, source, metadata, chunks, chars, created_at: now, bytes };
  const head =
    before === undefined
      ? [
          lockTenantOp(tenant, documentTable.name),
          insertDocument(tenant, row),
          // Other documents may have been stored since the look above.
          tenant.op(keepWithin, [id, documentsMax], 1),
        ]
      : [tenant.op(replaceDocument, [ts, JSON.stringify(metadata), chunks, chars, bytes, id, before.ts], 1)];
  const first = document_key * keysOfDocument;
  const ops = [
    ...head,
    ...(before === undefined ? [] : [dropDocumentFileOp(tenant, id), ...deletePartsOps(tenant, document_key)]),
    ...(written.fileId === null ? [] : [keepDocumentFileOp(tenant, written.fileId, id)]),
    tenant.op(insertChunks, [first, JSON.stringify(written.chunks.map(({ content }) => content))]),
    tenant.op(insertWords, [JSON.stringify(written.chunks.map(({ words }) => words)), first]),
    ...(await queueOps(
      written.chunks.map((_, at) => first + at),
      ts,
    )),
  ];
  return unlessChanged(() =>
    writeStored(tenant, { kind: "documents", bytes: bytes - (before?.bytes ?? 0) }, limit, ops),
  );
}

/** Deletes a document as it was read. Returns false if another writer has changed it since. */
export function removeDocument(store: TenantStore, { id, ts, document_key, bytes }: DocumentRow): Promise<boolean> {
  const ops = [
    store.op(deleteDocument, [id, ts], 1),
    dropDocumentFileOp(store, id),
    ...deletePartsOps(store, document_key),
  ];
  return unlessChanged(() => writeStored(store, { kind: "documents", bytes: -bytes }, 0, ops));
}

async function newKey(store: Store): Promise<number> {
  const [[row] = []] = await store.system.write([store.system.op(nextKey, [], 1)]);
  return row?.value as number;
}

function deletePartsOps(store: TenantStore, documentKey: number): WriteOp[] {
  const [from, to] = [documentKey * keysOfDocument, (documentKey + 1) * keysOfDocument];
  // On SQLite the words are found through the chunks.
  return [
    store.op(deleteWords, [from, to]),
    store.op(deleteChunks, [from, to]),
    ...deleteVectorsOps(store, "documents", from, to),
  ];
}

/** Counts the text twice, because the index of its words takes about as much as the text. */
function bytesOf({ title, source, metadata, chunks }: DocumentWritten): number {
  const texts = chunks.reduce((all, { content }) => all + Buffer.byteLength(content), 0);
  return rowBytes + 2 * texts + Buffer.byteLength(title + source + JSON.stringify(metadata));
}
