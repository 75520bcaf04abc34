/**
 * Bytes under keys. Keys are paths of plain segments (`keys.ts`); another key is refused with invalid_path, and so is one that
 * would make an object the folder of another. Keys that differ in case only are different objects, which the fs store can keep
 * apart only on a file system that does.
 *
 * Every method refuses with storage_unavailable when the store does not work.
 */
export interface ObjectStore {
  get(key: string): Promise<Uint8Array | null>;
  /** Resolves when the object is durable. Who reads meanwhile gets the old object or the new, never a part. */
  put(key: string, bytes: Uint8Array): Promise<void>;
  /** Deleting what is not there is no error. */
  delete(key: string): Promise<void>;
  /** At most `limit` keys that begin with `prefix` and come after `after`, in the order of their characters. */
  list(prefix: string, limit: number, after?: string): Promise<string[]>;
  /** Whether objects can be written and read now. */
  check(): Promise<void>;
}
