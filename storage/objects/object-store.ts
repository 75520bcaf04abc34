/**
 * Stores bytes under keys. A key is a path of plain segments (`keys.ts`). Other keys are refused with invalid_path. The
 * stores in memory and in files also refuse a key that would make an object the folder of another; buckets have no
 * folders. Keys that differ only in case are different objects; the fs store needs a case-sensitive file system for that.
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
  /** Rejects unless objects can be written and read now. A store over a network writes at most once a minute. */
  check(): Promise<void>;
  /** Returns the id of the store. The first call gives it the id `fresh`, and later ones, of any process, return that. */
  identify(fresh: string): Promise<string>;
  /** Closes idle connections. Calls after it open new ones. */
  close(): Promise<void>;
}
