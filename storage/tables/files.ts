import { mayDeleteObjects } from "../store/object-hold.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";

// Uploads, and images that tools have made. The bytes are in the object store. A row comes before them and goes after them: it is
// `draft` while they are being stored, `kept` when they are, `gone` when they are to be deleted. Only what is kept is seen by anybody.
//
// What tools have made goes with the conversation that it was made in, unless a fork of it still shows it: then it is that one's.

/** What a file may be. */
export const imageTypes = ["image/gif", "image/jpeg", "image/png", "image/webp"] as const;
/** One of them. */
export type ImageType = (typeof imageTypes)[number];

const fileTable = table("files", {
  file_id: text,
  media_type: oneOf(...imageTypes),
  size_bytes: integer,
  /** Without a path; empty when nobody has named it. */
  filename: text,
  created_at: integer,
  created_by: text,
  state: oneOf("draft", "kept", "gone"),
  /** The conversation that it goes with: that it was made in, or a fork that is still there; null for an upload. */
  thread_key: nullable(integer),
});

/** A file as it is stored. */
export type FileRow = RowIn<typeof fileTable>;

/** Where a page of files that are to be deleted ended. */
export type DroppedFileCursor = Pick<DroppedFile, "tenant_id" | "file_id"> & { readonly created_at: number };

/** A file whose bytes are to be deleted, or were never stored. */
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
/** Whoever shares files of the tenant waits for who gives some up, and the other way round: each sees what the other has done. */
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
// Bytes that the snapshot of a backup names are not deleted before they are copied.
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

/** A file that is there. */
export async function keptFile(store: TenantStore, fileId: string): Promise<FileRow | undefined> {
  const row = await selectFile(store, fileId);
  return row?.state === "kept" ? row : undefined;
}

/** Begins to store a file. */
export function draftFileOp(store: TenantStore, file: Omit<FileRow, "state">): WriteOp {
  return insertFile(store, { ...file, state: "draft" });
}

/** The bytes are stored: from now on the file is there. Refuses with conflict when it was given up meanwhile. */
export function keepFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(keepFile, [fileId], 1);
}

/** From now on the file is not there. */
export function dropFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(dropFile, [fileId]);
}

/** The thread shows these files too, as far as the thread `from` has them: they stay for as long as it is there. */
export function shareFilesOps(
  store: TenantStore,
  threadKey: number,
  from: number,
  fileIds: readonly string[],
): WriteOp[] {
  if (fileIds.length === 0) return [];
  return [store.op(lockShares, []), ...fileIds.map((id) => store.op(shareFile, [threadKey, id, from, from]))];
}

/** The files of a thread go, those that no other shows. */
export function dropFilesOfThreadOps(store: TenantStore, threadKey: number): WriteOp[] {
  return [
    store.op(lockShares, []),
    ...[unshareOfThread, passOnFiles, dropFilesOfThread].map((statement) => store.op(statement, [threadKey])),
  ];
}

/** The bytes are gone. Refuses with conflict when that was written before. */
export function deleteFileOp(store: TenantStore, fileId: string): WriteOp {
  return store.op(deleteFile, [fileId], 1);
}

/**
 * Files of all tenants that are gone, and drafts from before a time, in pages: who was storing them is no more. None while objects are
 * held.
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

/** A file of a tenant that is gone, if its bytes may go now. */
export async function goneFile(store: TenantStore, fileId: string): Promise<DroppedFile | undefined> {
  const [row] = await store.read(selectOneGone, fileId);
  return row as unknown as DroppedFile | undefined;
}

/** Files of a tenant that are gone, and whose bytes may go now. */
export async function goneFiles(store: TenantStore, limit: number): Promise<DroppedFile[]> {
  return (await store.read(selectGone, limit)) as unknown as DroppedFile[];
}
