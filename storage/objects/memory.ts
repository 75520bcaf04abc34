import { SvcError } from "../../bus/errors.ts";
import { checkKey, checkPrefix } from "./keys.ts";
import type { ObjectStore } from "./object-store.ts";

/** Max bytes of all objects; further puts are refused. */
const bytesMaxDefault = 256 * 1024 * 1024;

/** Opens a store in memory, whose objects are lost when the process ends. */
export function openMemoryStore(bytesMax: number = bytesMaxDefault): ObjectStore {
  const objects = new Map<string, Uint8Array>();
  /** Number of objects under each folder. */
  const folders = new Map<string, number>();
  let bytesKept = 0;
  let id: string | null = null;

  function countFolders(key: string, by: 1 | -1): void {
    for (const folder of foldersOf(key)) {
      const count = (folders.get(folder) ?? 0) + by;
      if (count === 0) folders.delete(folder);
      else folders.set(folder, count);
    }
  }

  return {
    async get(key) {
      checkKey(key);
      return objects.get(key)?.slice() ?? null;
    },
    async put(key, bytes) {
      checkKey(key);
      if (folders.has(key) || foldersOf(key).some((folder) => objects.has(folder))) throw new SvcError("invalid_path");
      const old = objects.get(key);
      const kept = bytesKept - (old?.length ?? 0) + bytes.length;
      if (kept > bytesMax) throw new SvcError("storage_unavailable");
      if (!old) countFolders(key, 1);
      objects.set(key, bytes.slice());
      bytesKept = kept;
    },
    async delete(key) {
      checkKey(key);
      const old = objects.get(key);
      if (!old) return;
      objects.delete(key);
      countFolders(key, -1);
      bytesKept -= old.length;
    },
    async list(prefix, limit, after = "") {
      checkPrefix(prefix);
      return [...objects.keys()]
        .filter((key) => key.startsWith(prefix) && key > after)
        .sort()
        .slice(0, limit);
    },
    async check() {},
    async identify(fresh) {
      id ??= fresh;
      return id;
    },
    async close() {},
  };
}

/** Returns the folders of a key, outermost first. */
function foldersOf(key: string): string[] {
  const parts = key.split("/");
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join("/"));
}
