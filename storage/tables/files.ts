import { mayDeleteObjects } from "../store/object-hold.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";

// Uploads, and images that tools have created. The bytes are in the object store. A row is inserted before its bytes
// are stored and deleted after them. Its state is `draft` while they are being stored, then `kept`, and `gone` until
// they are deleted. Only `kept` files are visible.
//
// A file that a tool created is deleted with its thread, unless a fork still shows it. The fork then owns it.

/** The media types of images, and of all uploads. */
export const imageTypes = ["image/gif", "image/jpeg", "image/png", "image/webp"] as const;
/** One of the allowed media types. */
export type ImageType = (typeof imageTypes)[number];
/** The media type of documents that tools make. */
export const documentType = "application/pdf";

/** True for the media type of an image: models are shown no other files. */
export function isImageType(mediaType: string): mediaType is ImageType {
  return imageTypes.some((type) => type === mediaType);
}

const fileTable = table("files", {
  file_id: text,
  media_type: oneOf(...imageTypes, documentType),
  size_bytes: integer,
  /** File name without a path; empty if none was given. */
  filename: text,
  created_at: integer,
  created_by: text,
  state: oneOf("draft", "kept", "gone"),
  /** The thread that owns the file: the one that created it, or a remaining fork. Null for an upload. */
  thread_key: nullable(integer),
});

/** A stored file. */
export type FileRow = RowIn<typeof fileTable>;

/** Position after a page of files to delete. */
export type DroppedFileCursor = Pick<DroppedFile, "tenant_id" | "file_id"> & { readonly created_at: number };

/** A file whose bytes must be deleted, or were never stored. */
export interface DroppedFile {
  readonly tenant_id: string;
  readonly file_id: string;
  readonly size_bytes: number;
}

const insertFile = insertInto(fileTable);
const selectFile = selectOne(fileTable, ["file_id"]);
const keepFile = tenantSql(
  "file_keep",
  "UPDATE files SET state = 'kept' WHERE tenant_id = :tenant AND file_id = ? AND state = 'draft'",
);
const dropFile = tenantSql(
  "file_drop",
  "UPDATE files SET state = 'gone' WHERE tenant_id = :tenant AND file_id = ? AND state = 'kept'",
);
const shareFile = tenantSql(
  "file_share",
  `INSERT INTO file_shares (tenant_id, thread_key, file_id)
   SELECT :tenant, CAST(? AS BIGINT), file_id FROM files
   WHERE tenant_id = :tenant AND file_id = ? AND state = 'kept' AND thread_key IS NOT NULL AND (thread_key = ? OR EXISTS
     (SELECT 1 FROM file_shares s WHERE s.tenant_id = :tenant AND s.thread_key = ? AND s.file_id = files.file_id))
   ON CONFLICT DO NOTHING`,
);
/** Locks the tenant's shares, so that sharing and dropping files wait for each other and see each other's result. */
const lockShares = tenantSql(
  "file_shares_lock",
  "UPDATE stored_bytes SET bytes = bytes WHERE tenant_id = :tenant AND kind = 'files'",
);
const unshareOfThread = tenantSql(
  "file_shares_delete",
  "DELETE FROM file_shares WHERE tenant_id = :tenant AND thread_key = ?",
);
const passOnFiles = tenantSql(
  "files_pass_on",
  `UPDATE files SET thread_key =
     (SELECT MIN(s.thread_key) FROM file_shares s WHERE s.tenant_id = :tenant AND s.file_id = files.file_id)
   WHERE tenant_id = :tenant AND thread_key = ? AND state = 'kept' AND EXISTS
     (SELECT 1 FROM file_shares s WHERE s.tenant_id = :tenant AND s.file_id = files.file_id)`,
);
const dropFilesOfThread = tenantSql(
  "files_drop_of_thread",
  "UPDATE files SET state = 'gone' WHERE tenant_id = :tenant AND thread_key = ?",
);
const deleteFile = tenantSql(
  "file_delete",
  "DELETE FROM files WHERE tenant_id = :tenant AND file_id = ? AND state <> 'kept'",
);
// Excludes all files while a backup copies objects, because its snapshot may refer to them.
const selectDropped = systemSql(
  "files_dropped",
  `SELECT tenant_id, file_id, size_bytes, created_at FROM files
   WHERE state <> 'kept' AND (state = 'gone' OR created_at < ?) AND (created_at, tenant_id, file_id) > (?, ?, ?) AND ${mayDeleteObjects}
   ORDER BY created_at, tenant_id, file_id LIMIT ?`,
);
const selectOneGone = tenantSql(
  "file_gone",
  `SELECT tenant_id, file_id, size_bytes FROM files WHERE tenant_id = :tenant AND file_id = ? AND state = 'gone' AND ${mayDeleteObjects}`,
);
const selectGone = tenantSql(
  "files_gone",
  `SELECT tenant_id, file_id, size_bytes FROM files INDEXED BY files_unkept
   WHERE tenant_id = :tenant AND state <> 'kept' AND state = 'gone' AND ${mayDeleteObjects} ORDER BY created_at LIMIT ?`,
);

/** Returns a visible file. */
export async function keptFile(store: TenantStore, fileId: string): Promise<FileRow | undefined> {
  const row = await selectFile(store, fileId);
  return row?.state === "kept" ? row : undefined;
}

/** Inserts the draft row of a file. */
export function draftFileOp(store: TenantStore, file: Omit<FileRow, "state">): WriteOp {
  return insertFile(store, { ...file, state: "draft" });
}

/** Makes a file visible after its bytes are stored. Refuses with conflict if it was deleted before. */
export function keepFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(keepFile, [fileId], 1);
}

/** Marks a file as deleted. */
export function dropFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(dropFile, [fileId]);
}

/** Lets a thread show files that the thread `from` owns or shows. They stay as long as one of their threads exists. */
export function shareFilesOps(
  store: TenantStore,
  threadKey: number,
  from: number,
  fileIds: readonly string[],
): WriteOp[] {
  if (fileIds.length === 0) return [];
  return [store.op(lockShares, []), ...fileIds.map((id) => store.op(shareFile, [threadKey, id, from, from]))];
}

/** Drops the files of a thread that no other thread shows. */
export function dropFilesOfThreadOps(store: TenantStore, threadKey: number): WriteOp[] {
  return [
    store.op(lockShares, []),
    ...[unshareOfThread, passOnFiles, dropFilesOfThread].map((statement) => store.op(statement, [threadKey])),
  ];
}

/** Deletes the row after the bytes. Refuses with conflict if it is deleted already. */
export function deleteFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(deleteFile, [fileId], 1);
}

/**
 * Returns files of all tenants that are marked as deleted, and drafts from before a time, whose process is dead, in
 * pages. None while objects are held.
 */
export async function droppedFiles(
  store: Scope,
  draftsBefore: number,
  after: DroppedFileCursor | null,
  limit: number,
): Promise<(DroppedFile & DroppedFileCursor)[]> {
  const { created_at, tenant_id, file_id } = after ?? { created_at: -1, tenant_id: "", file_id: "" };
  const rows = await store.read(selectDropped, draftsBefore, created_at, tenant_id, file_id, limit);
  return rows as unknown as (DroppedFile & DroppedFileCursor)[];
}

/** Returns a deleted file of a tenant if its bytes may be deleted now. */
export async function goneFile(store: TenantStore, fileId: string): Promise<DroppedFile | undefined> {
  const [row] = await store.read(selectOneGone, fileId);
  return row as unknown as DroppedFile | undefined;
}

/** Returns deleted files of a tenant whose bytes may be deleted now. */
export async function goneFiles(store: TenantStore, limit: number): Promise<DroppedFile[]> {
  return (await store.read(selectGone, limit)) as unknown as DroppedFile[];
}
