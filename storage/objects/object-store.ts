/**
 * Stores bytes under keys. A key is a path of plain segments (`keys.ts`). Other keys are refused with invalid_path, as
 * is a key that would make an object the folder of another. Keys that differ only in case are different objects; the fs
 * store needs a case-sensitive file system for that.
 *
 * Every method refuses with storage_unavailable when the store fails.
 */
export interface ObjectStore {
  get(key: string): Promise<Uint8Array | null>;
  /** Resolves when the object is durable. A concurrent read gets the old or the new object, never a part. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Deletes an object; an absent one is not an error. */
  delete(key: string): Promise<void>;
  /** Returns up to `limit` keys that begin with `prefix` and sort after `after`, in character order. */
  list(prefix: string, limit: number, after?: string): Promise<string[]>;
  /** Rejects unless objects can be written and read now. */
  check(): Promise<void>;
}
