import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tenantSegment } from "../objects/keys.ts";
import type { ObjectStore } from "../objects/object-store.ts";
import type { Store, TenantStore } from "../store/store.ts";
import {
  type DocumentFileRow,
  type DroppedDocumentFile,
  type DroppedDocumentFileCursor,
  deleteDocumentFileOp,
  draftDocumentFileOp,
  droppedDocumentFiles,
  filesOfDocuments,
  goneDocumentFiles,
} from "../tables/document-files.ts";
import { writeStored } from "../tables/stored-bytes.ts";
import { sweepDropped } from "./sweep-dropped.ts";

// Each file of a document is a row and an object, written in the same order as those of an upload: see file-store.ts.

/** Prefix of the object keys of all files of documents. */
export const documentFilesFolder = "document-files/";
/** Age at which a draft counts as abandoned by a dead process. */
const draftLifeMs = 3_600_000;
/** Max files that a request deletes itself; the sweep deletes the rest. */
const promptMax = 50;

/** Stores and deletes the files from which documents were made (decision 196). */
export class DocumentFiles {
  readonly #objects: ObjectStore | null;
  readonly #env: Pick<Env, "now" | "id">;
  readonly #storedBytesMax: number;

  /**
   * `objects` is null if no object store is shared by all threads. `storedBytesMax` limits the bytes of all data of a tenant;
   * 0 means no limit.
   */
  constructor(objects: ObjectStore | null, env: Pick<Env, "now" | "id">, storedBytesMax = 0) {
    this.#objects = objects;
    this.#env = env;
    this.#storedBytesMax = storedBytesMax;
  }

  /**
   * Stores the bytes of a file. The batch that writes its document keeps it. Refuses with storage_quota_exceeded,
   * object_store_unavailable and storage_unavailable.
   */
  async draft(
    store: TenantStore,
    { doc_id, media_type, bytes }: Pick<DocumentFileRow, "doc_id" | "media_type"> & { readonly bytes: Uint8Array },
  ): Promise<DroppedDocumentFile> {
    const objects = this.#opened();
    const [file_id, size_bytes] = [this.#env.id(), bytes.length];
    const row = { file_id, doc_id, media_type, size_bytes, created_at: this.#env.now() };
    const change = { kind: "documents", bytes: size_bytes } as const;
    await writeStored(store, change, this.#storedBytesMax, [draftDocumentFileOp(store, row)]);
    const draft = { tenant_id: store.tenantId, file_id, size_bytes };
    try {
      await objects.put(documentFileKey(store.tenantId, file_id), bytes);
    } catch (error) {
      // The object may exist although the put failed.
      await this.discard(store, draft).catch(() => {});
      throw error;
    }
    return draft;
  }

  /** Returns the file of a document with its bytes; null if it has none. */
  async read(store: TenantStore, docId: string): Promise<{ file: DocumentFileRow; bytes: Uint8Array } | null> {
    const file = (await filesOfDocuments(store, [docId])).get(docId);
    if (file === undefined) return null;
    const bytes = await this.#opened().get(documentFileKey(store.tenantId, file.file_id));
    return bytes === null ? null : { file, bytes };
  }

  /** Deletes a draft, or the bytes and the row of a dropped file. */
  async discard(store: TenantStore, { file_id, size_bytes }: DroppedDocumentFile): Promise<void> {
    // The object first, because the sweep finds it by its row.
    await this.#opened().delete(documentFileKey(store.tenantId, file_id));
    try {
      const change = { kind: "documents", bytes: -size_bytes } as const;
      await writeStored(store, change, 0, [deleteDocumentFileOp(store, file_id)]);
    } catch (error) {
      // Another process has deleted the row already.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }

  /** Deletes the bytes of up to `promptMax` dropped files of a tenant. The sweep deletes the rest. */
  async removeGone(store: TenantStore): Promise<void> {
    if (this.#objects === null) return;
    for (const file of await goneDocumentFiles(store, promptMax)) await this.discard(store, file);
  }

  /** Deletes dropped files and abandoned drafts. Returns their number. Throws the first failure at the end. */
  async sweep(store: Store): Promise<number> {
    if (this.#objects === null) return 0;
    const draftsBefore = this.#env.now() - draftLifeMs;
    return sweepDropped<DroppedDocumentFile & DroppedDocumentFileCursor>({
      page: (after, limit) => droppedDocumentFiles(store.system, draftsBefore, after, limit),
      erase: (file) => this.discard(store.tenant(file.tenant_id), file),
    });
  }

  #opened(): ObjectStore {
    if (this.#objects === null) throw new SvcError("object_store_unavailable");
    return this.#objects;
  }
}

/** Returns the object key of the file of a document. */
export function documentFileKey(tenantId: string, fileId: string): string {
  return `${documentFilesFolder}${tenantSegment(tenantId)}/${fileId}`;
}
