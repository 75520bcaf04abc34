import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tenantSegment } from "../objects/keys.ts";
import type { ObjectStore } from "../objects/object-store.ts";
import { requestMs, type Store, type TenantStore, type WriteOp } from "../store/store.ts";
import {
  type DroppedFile,
  type DroppedFileCursor,
  deleteFileOp,
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

// Files: a row and an object for each. A crash between the two leaves a row that nobody sees, by which the sweep finds what is to be
// deleted; until then its bytes are charged. So no object is ever without a row.

/** What the keys of all files begin with. */
export const filesFolder = "files/";
/** Bytes of one file (document 2, "Limits"). */
export const fileBytesMax = 600 * 1024;
/** A draft of this age was left by a process that is gone. */
const draftLifeMs = 3_600_000;
/** Files that a sweep looks for at once. */
const sweepRows = 500;
/** Files that are deleted while somebody waits for it. */
const promptMax = 50;
const fileIdPattern = /^[0-9a-f]{32}$/;

/** A file to be kept. */
export interface NewFile {
  readonly bytes: Uint8Array;
  /** What its sender says it is; null to go by the bytes alone. */
  readonly declared: string | null;
  readonly filename: string;
  readonly created_by: string;
  readonly thread_key: number | null;
}

/** A file whose bytes are stored, and which is there as soon as `keep` is written. */
export interface FileDraft {
  readonly file: FileRow;
  readonly keep: WriteOp;
}

/** Keeps files of all tenants. */
export class FileStore {
  readonly #objects: ObjectStore | null;
  readonly #env: Env;
  readonly #filesBytesMax: number;
  readonly #storedBytesMax: number;

  /** Max bytes of one file. */
  readonly fileBytesMax: number;

  /**
   * `objects` is null where there is no store that all threads share. A tenant may have so many bytes of files, and of all that it
   * stores; 0 for any number.
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
   * Stores the bytes of a file. Refuses with empty_data, file_too_large, media_type_mismatch, attachment_quota_exceeded,
   * storage_quota_exceeded and object_store_unavailable.
   */
  async draft(store: TenantStore, { bytes, declared, filename, created_by, thread_key }: NewFile): Promise<FileDraft> {
    const objects = this.#opened();
    if (bytes.length === 0) throw new SvcError("empty_data");
    if (bytes.length > this.fileBytesMax) throw new SvcError("file_too_large");
    const media_type = await imageTypeOf(bytes);
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
      // It may have been stored all the same.
      await this.#erase(store, { tenant_id: store.tenantId, ...file }).catch(() => {});
      throw error;
    }
    return { file: { ...file, state: "kept" }, keep: keepFileOp(store, file_id) };
  }

  /** Keeps a file. Refuses as `draft`. */
  async keep(store: TenantStore, file: NewFile): Promise<FileRow> {
    const draft = await this.draft(store, file);
    await store.write([draft.keep], requestMs);
    return draft.file;
  }

  /** What is known of a file of this tenant; null when there is none under this id. */
  async find(store: TenantStore, fileId: string): Promise<FileRow | null> {
    if (this.#objects === null || !isFileId(fileId)) return null;
    return (await keptFile(store, fileId)) ?? null;
  }

  /** A file of this tenant with its bytes; null when there is none under this id. */
  async read(store: TenantStore, fileId: string): Promise<{ file: FileRow; bytes: Uint8Array } | null> {
    const file = await this.find(store, fileId);
    if (file === null) return null;
    const bytes = await this.#opened().get(fileKey(store.tenantId, fileId));
    return bytes === null ? null : { file, bytes };
  }

  /** Deletes a file, if the tenant has it; its bytes later, while a backup copies objects. When it rejects the file is not there any more all the same, or was not touched. */
  async remove(store: TenantStore, fileId: string): Promise<void> {
    this.#opened();
    const file = await this.find(store, fileId);
    if (file === null) return;
    await store.write([dropFileOp(store, fileId)], requestMs);
    const gone = await goneFile(store, fileId);
    if (gone !== undefined) await this.#erase(store, gone);
  }

  /** Deletes the bytes of files of a tenant that are gone, as many as somebody can wait for. What is left is for the sweep. */
  async removeGone(store: TenantStore): Promise<void> {
    if (this.#objects === null) return;
    for (const file of await goneFiles(store, promptMax)) await this.#erase(store, file);
  }

  /**
   * Deletes what is gone, and what was never stored whole. Answers how many files there were; when it rejects, all are deleted that can be.
   */
  async sweep(store: Store): Promise<number> {
    if (this.#objects === null) return 0;
    const draftsBefore = this.#env.now() - draftLifeMs;
    let failure: unknown = null;
    let count = 0;
    for (let after: DroppedFileCursor | null = null; ; ) {
      const page: (DroppedFile & DroppedFileCursor)[] = await droppedFiles(
        store.system,
        draftsBefore,
        after,
        sweepRows,
      );
      for (const file of page)
        await this.#erase(store.tenant(file.tenant_id), file).catch((error: unknown) => {
          failure ??= error;
        });
      count += page.length;
      after = page.at(-1) ?? null;
      if (page.length < sweepRows) break;
    }
    if (failure !== null) throw failure;
    return count;
  }

  #opened(): ObjectStore {
    if (this.#objects === null) throw new SvcError("object_store_unavailable");
    return this.#objects;
  }

  /** The bytes first: the row is how they are found again. */
  async #erase(store: TenantStore, file: DroppedFile): Promise<void> {
    await this.#opened().delete(fileKey(file.tenant_id, file.file_id));
    try {
      const change = { kind: "files", bytes: -file.size_bytes } as const;
      await writeStored(store, change, 0, [deleteFileOp(store, file.file_id)]);
    } catch (error) {
      // Somebody else has deleted it meanwhile.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
}

/** Whether a text can name a file. */
export function isFileId(text: string): boolean {
  return fileIdPattern.test(text);
}

/** Where the bytes of a file are among the objects. */
export function fileKey(tenantId: string, fileId: string): string {
  return `${filesFolder}${tenantSegment(tenantId)}/${fileId}`;
}

/** A name without the folders before it, and without what cannot be shown. */
function baseName(filename: string): string {
  const shown = filename.toWellFormed().replaceAll(/\p{C}/gu, "");
  const name = shown.slice(Math.max(shown.lastIndexOf("/"), shown.lastIndexOf("\\")) + 1).trim();
  return name === "." || name === ".." ? "" : name;
}
