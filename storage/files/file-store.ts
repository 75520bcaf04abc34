import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tenantSegment } from "../objects/keys.ts";
import type { ObjectStore } from "../objects/object-store.ts";
import { requestMs, type Store, type TenantStore, type WriteOp } from "../store/store.ts";
import {
  type DroppedFile,
  type DroppedFileCursor,
  deleteFileOp,
  documentType,
  draftFileOp,
  dropFileOp,
  droppedFiles,
  type FileRow,
  goneFile,
  goneFiles,
  keepFileOp,
  keptFile,
} from "../tables/files.ts";
import { writeStored } from "../tables/stored-bytes.ts";
import { imageTypeOf } from "./image-type.ts";
import { sweepDropped } from "./sweep-dropped.ts";

// Each file is a row and an object. A crash between the two writes leaves a draft row that no reader sees and that the
// sweep deletes. Its bytes count against the quota until then. An object therefore never exists without a row.

/** Prefix of the object keys of all files. */
export const filesFolder = "files/";
/** Max bytes of one file (document 2, "Limits"). */
export const fileBytesMax = 600 * 1024;
/** Max bytes of a document that a tool makes (decision 174). */
const documentBytesMax = 5 * 1024 * 1024;
/** Age at which a draft counts as abandoned by a dead process. */
const draftLifeMs = 3_600_000;
/** Max files that a request deletes itself; the sweep deletes the rest. */
const promptMax = 50;
const fileIdPattern = /^[0-9a-f]{32}$/;

/** A file to store. */
export interface NewFile {
  readonly bytes: Uint8Array;
  /** Media type that the sender declares; null to detect that of an image from the bytes alone. */
  readonly declared: string | null;
  readonly filename: string;
  readonly created_by: string;
  readonly thread_key: number | null;
}

/** A file whose bytes are stored. The file becomes visible when the operation `keep` is written. */
export interface FileDraft {
  readonly file: FileRow;
  readonly keep: WriteOp;
}

/** Stores and deletes the files of all tenants. */
export class FileStore {
  readonly #objects: ObjectStore | null;
  readonly #env: Env;
  readonly #filesBytesMax: number;
  readonly #storedBytesMax: number;

  /** Max bytes of one file. */
  readonly fileBytesMax: number;

  /**
   * `objects` is null if no object store is shared by all threads. `filesBytesMax` limits a tenant's bytes of files,
   * and `storedBytesMax` those of all its data; 0 means no limit.
   */
  constructor(
    objects: ObjectStore | null,
    env: Env,
    filesBytesMax: number,
    storedBytesMax = 0,
    fileMax: number = fileBytesMax,
  ) {
    this.fileBytesMax = fileMax;
    this.#objects = objects;
    this.#env = env;
    this.#filesBytesMax = filesBytesMax;
    this.#storedBytesMax = storedBytesMax;
  }

  /**
   * Stores the bytes of a file. Refuses with empty_data, file_too_large, media_type_mismatch,
   * attachment_quota_exceeded, storage_quota_exceeded and object_store_unavailable.
   */
  async draft(store: TenantStore, { bytes, declared, filename, created_by, thread_key }: NewFile): Promise<FileDraft> {
    const objects = this.#opened();
    if (bytes.length === 0) throw new SvcError("empty_data");
    const isDocument = declared === documentType;
    if (bytes.length > (isDocument ? documentBytesMax : this.fileBytesMax)) throw new SvcError("file_too_large");
    const media_type = isDocument ? documentTypeOf(bytes) : await imageTypeOf(bytes);
    if (media_type === null || (declared !== null && declared !== media_type))
      throw new SvcError("media_type_mismatch");
    const file_id = this.#env.id();
    const file = {
      file_id,
      media_type,
      size_bytes: bytes.length,
      filename: baseName(filename),
      created_at: this.#env.now(),
      created_by,
      thread_key,
    };
    const most = { bytes: this.#filesBytesMax, refusal: "attachment_quota_exceeded" } as const;
    const change = { kind: "files", bytes: file.size_bytes, most } as const;
    await writeStored(store, change, this.#storedBytesMax, [draftFileOp(store, file)]);
    try {
      await objects.put(fileKey(store.tenantId, file_id), bytes);
    } catch (error) {
      // The object may exist although the put failed.
      await this.#erase(store, { tenant_id: store.tenantId, ...file }).catch(() => {});
      throw error;
    }
    return { file: { ...file, state: "kept" }, keep: keepFileOp(store, file_id) };
  }

  /** Stores a file and makes it visible. Refuses as `draft` does. */
  async keep(store: TenantStore, file: NewFile): Promise<FileRow> {
    const draft = await this.draft(store, file);
    await store.write([draft.keep], requestMs);
    return draft.file;
  }

  /** Returns the row of a file of this tenant; null for an unknown id. */
  async find(store: TenantStore, fileId: string): Promise<FileRow | null> {
    if (this.#objects === null || !isFileId(fileId)) return null;
    return (await keptFile(store, fileId)) ?? null;
  }

  /** Returns a file of this tenant with its bytes; null for an unknown id. */
  async read(store: TenantStore, fileId: string): Promise<{ file: FileRow; bytes: Uint8Array } | null> {
    const file = await this.find(store, fileId);
    if (file === null) return null;
    const bytes = await this.#opened().get(fileKey(store.tenantId, fileId));
    return bytes === null ? null : { file, bytes };
  }

  /**
   * Deletes a file of this tenant if it exists. While a backup copies objects, its bytes stay for a later sweep. If the
   * call rejects, the file is either no longer visible or unchanged.
   */
  async remove(store: TenantStore, fileId: string): Promise<void> {
    this.#opened();
    const file = await this.find(store, fileId);
    if (file === null) return;
    await store.write([dropFileOp(store, fileId)], requestMs);
    const gone = await goneFile(store, fileId);
    if (gone !== undefined) await this.#erase(store, gone);
  }

  /** Deletes the bytes of up to `promptMax` deleted files of a tenant. The sweep deletes the rest. */
  async removeGone(store: TenantStore): Promise<void> {
    if (this.#objects === null) return;
    for (const file of await goneFiles(store, promptMax)) await this.#erase(store, file);
  }

  /** Deletes deleted files and abandoned drafts. Returns their number. Throws the first failure at the end. */
  async sweep(store: Store): Promise<number> {
    if (this.#objects === null) return 0;
    const draftsBefore = this.#env.now() - draftLifeMs;
    return sweepDropped<DroppedFile & DroppedFileCursor>({
      page: (after, limit) => droppedFiles(store.system, draftsBefore, after, limit),
      erase: (file) => this.#erase(store.tenant(file.tenant_id), file),
    });
  }

  #opened(): ObjectStore {
    if (this.#objects === null) throw new SvcError("object_store_unavailable");
    return this.#objects;
  }

  /** Deletes the object before the row, because the sweep finds the object by its row. */
  async #erase(store: TenantStore, file: DroppedFile): Promise<void> {
    await this.#opened().delete(fileKey(file.tenant_id, file.file_id));
    try {
      const change = { kind: "files", bytes: -file.size_bytes } as const;
      await writeStored(store, change, 0, [deleteFileOp(store, file.file_id)]);
    } catch (error) {
      // Another process has deleted the row already.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
}

/** True if the text has the form of a file id. */
export function isFileId(text: string): boolean {
  return fileIdPattern.test(text);
}

/** Returns the object key of a file. */
export function fileKey(tenantId: string, fileId: string): string {
  return `${filesFolder}${tenantSegment(tenantId)}/${fileId}`;
}

/** Returns the type of a document by its signature (ISO 32000-1, 7.5.2); null for any other bytes. */
function documentTypeOf(bytes: Uint8Array): typeof documentType | null {
  return Buffer.from(bytes.subarray(0, 5)).toString("latin1") === "%PDF-" ? documentType : null;
}

/** Returns the last segment of a path, without control characters. */
function baseName(filename: string): string {
  const shown = filename.toWellFormed().replaceAll(/\p{C}/gu, "");
  const name = shown.slice(Math.max(shown.lastIndexOf("/"), shown.lastIndexOf("\\")) + 1).trim();
  return name === "." || name === ".." ? "" : name;
}
