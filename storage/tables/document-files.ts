import { mayDeleteObjects } from "../store/object-hold.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, oneOf, type RowIn, table, text } from "../store/table.ts";

// The files from which documents were made. As for uploads, a row is inserted before its bytes are stored and deleted after them. Its
// state is `draft` while they are being stored, then `kept`, and `gone` until they are deleted. A document has at most one kept
// file; the batch that replaces or deletes the document drops it.

const fileTable = table(
  "document_files",
  {
    file_id: text,
    doc_id: text,
    media_type: text,
    size_bytes: integer,
    created_at: integer,
    state: oneOf("draft", "kept", "gone"),
  },
  ({ text: file_id }) => ({
    ...({ file_id, doc_id: "row", media_type: file_id, size_bytes: 5, created_at: 5, state: "kept" } as const),
  }),
);

/** The file of a document. */
export type DocumentFileRow = RowIn<typeof fileTable>;

/** A file whose bytes must be deleted, or were never stored. */
export type DroppedDocumentFile = Pick<DocumentFileRow, "file_id" | "size_bytes"> & { readonly tenant_id: string };

/** Position after a page of files to delete. */
export type DroppedDocumentFileCursor = Pick<DroppedDocumentFile, "tenant_id" | "file_id"> & {
  readonly created_at: number;
};

const insertFile = insertInto(fileTable);
const keepFile = tenantSql(
  "document_file_keep",
  "UPDATE document_files SET state = 'kept' WHERE tenant_id = :tenant AND file_id = ? AND doc_id = ? AND state = 'draft'",
);
const dropFile = tenantSql(
  "document_file_drop",
  "UPDATE document_files SET state = 'gone' WHERE tenant_id = :tenant AND doc_id = ? AND state = 'kept'",
);
const deleteFile = tenantSql(
  "document_file_delete",
  "DELETE FROM document_files WHERE tenant_id = :tenant AND file_id = ? AND state <> 'kept'",
);
const selectOfDocuments = tenantSql("document_files_of_documents", {
  sqlite: `SELECT ${fileTable.columns} FROM document_files
    WHERE tenant_id = :tenant AND state = 'kept' AND doc_id IN (SELECT value FROM json_each(?) wanted)`,
  postgres: `SELECT ${fileTable.columns} FROM document_files
    WHERE tenant_id = :tenant AND state = 'kept'
      AND doc_id IN (SELECT value FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))`,
});
// Excludes all files while a backup copies objects, because its snapshot may refer to them.
const selectDropped = systemSql(
  "document_files_dropped",
  `SELECT tenant_id, file_id, size_bytes, created_at FROM document_files
   WHERE state <> 'kept' AND (state = 'gone' OR created_at < ?) AND (created_at, tenant_id, file_id) > (?, ?, ?) AND ${mayDeleteObjects}
   ORDER BY created_at, tenant_id, file_id LIMIT ?`,
);
const selectGone = tenantSql(
  "document_files_gone",
  `SELECT tenant_id, file_id, size_bytes FROM document_files INDEXED BY document_files_unkept
   WHERE tenant_id = :tenant AND state <> 'kept' AND state = 'gone' AND ${mayDeleteObjects} ORDER BY created_at LIMIT ?`,
);

/** Inserts the draft row of a file. */
export function draftDocumentFileOp(store: TenantStore, file: Omit<DocumentFileRow, "state">): WriteOp {
  return insertFile(store, { ...file, state: "draft" });
}

/** Makes a file that of its document, after its bytes are stored. Refuses with conflict if it was deleted before. */
export function keepDocumentFileOp(store: TenantStore, fileId: string, docId: string): WriteOp {
  return store.op(keepFile, [fileId, docId], 1);
}

/** Drops the file of a document, if it has one. */
export function dropDocumentFileOp(store: TenantStore, docId: string): WriteOp {
  return store.op(dropFile, [docId]);
}

/** Deletes the row after the bytes. Refuses with conflict if it is deleted already. */
export function deleteDocumentFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(deleteFile, [fileId], 1);
}

/** Returns the files of documents, by the ids of the documents. */
export async function filesOfDocuments(
  store: TenantStore,
  docIds: readonly string[],
): Promise<ReadonlyMap<string, DocumentFileRow>> {
  if (docIds.length === 0) return new Map();
  const rows = await store.read(selectOfDocuments, JSON.stringify(docIds));
  return new Map(rows.map((row) => [String(row.doc_id), fileTable.decode(row)]));
}

/**
 * Returns dropped files of all tenants, and drafts from before a time, whose process is dead, in pages. None while objects are
 * held.
 */
export async function droppedDocumentFiles(
  store: Scope,
  draftsBefore: number,
  after: DroppedDocumentFileCursor | null,
  limit: number,
): Promise<(DroppedDocumentFile & DroppedDocumentFileCursor)[]> {
  const { created_at, tenant_id, file_id } = after ?? { created_at: -1, tenant_id: "", file_id: "" };
  const rows = await store.read(selectDropped, draftsBefore, created_at, tenant_id, file_id, limit);
  return rows as unknown as (DroppedDocumentFile & DroppedDocumentFileCursor)[];
}

/** Returns dropped files of a tenant whose bytes may be deleted now. */
export async function goneDocumentFiles(store: TenantStore, limit: number): Promise<DroppedDocumentFile[]> {
  return (await store.read(selectGone, limit)) as unknown as DroppedDocumentFile[];
}
