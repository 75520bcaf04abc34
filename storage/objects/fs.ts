import { constants, realpathSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, realpath, rename, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { makeDirectories } from "../store/directories.ts";
import { flushFolder, writeDurably } from "./durable-files.ts";
import { identifyFolder } from "./folder-id.ts";
import { checkKey, checkPrefix, isSegment } from "./keys.ts";
import type { ObjectStore } from "./object-store.ts";

// An object is a plain file under the root, at the path of its key, so that an operator can add files there. A put
// writes a draft in another folder, flushes it, renames it into place and flushes the target folder. Symbolic links are
// not followed: the store sees only folders and regular files below the root.

/** Folder of the drafts; no key can begin with it. */
const draftsFolder = "+drafts";
/** File with the id of the store; no key is its name. */
const idFile = "+id";
/** Age at which a draft counts as abandoned by a dead process. */
const draftLifeMs = 3_600_000;
/** Max attempts of a put: a concurrent delete may remove the folder between its creation and the rename. */
const putAttemptsMax = 5;

/** Opens a store of objects as files below `path`, which is created if absent. */
export function openFsStore(path: string, env: Env): ObjectStore {
  makeDirectories(path);
  const root = realpathSync(path);
  const drafts = join(root, draftsFolder);
  makeDirectories(drafts);
  let cleaning: Promise<void> | null = null;

  /** Returns the file path of a key; null if its folder is absent or reached through a link. */
  async function locate(key: string): Promise<string | null> {
    const file = join(root, key);
    const folder = dirname(file);
    try {
      return (await realpath(folder)) === folder ? file : null;
    } catch (error) {
      if (isAbsent(error)) return null;
      throw error;
    }
  }

  async function makeFolder(folder: string): Promise<void> {
    const first = await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await realpath(folder)) !== folder) throw new SvcError("invalid_path");
    if (first === undefined) return;
    // Each new folder is an entry in its parent, which must be flushed.
    for (let made = folder; made.length >= first.length; made = dirname(made)) await flushFolder(dirname(made));
  }

  async function place(draft: string, file: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await makeFolder(dirname(file));
        await rename(draft, file);
        break;
      } catch (error) {
        if (codeOf(error) !== "ENOENT" || attempt === putAttemptsMax) throw error;
      }
    }
    await flushFolder(dirname(file)).catch(ignoreAbsent);
  }

  /** Collects keys below `folder` ("" or ending in a slash), in order. */
  async function collect(folder: string, prefix: string, after: string, limit: number, found: string[]): Promise<void> {
    const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error: unknown) => {
      if (isAbsent(error)) return [];
      throw error;
    });
    // A folder sorts by the keys below it, so as if its name ended in a slash.
    const names = entries
      .filter((entry) => isSegment(entry.name) && (entry.isFile() || entry.isDirectory()))
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
      .sort();
    for (const name of names) {
      if (found.length >= limit) return;
      const key = folder + name;
      if (!name.endsWith("/")) {
        if (key.startsWith(prefix) && key > after) found.push(key);
        continue;
      }
      const mayHold = key.startsWith(prefix) || prefix.startsWith(key);
      // All keys of the folder share its prefix: either all of them precede `after`, or `after` is below the folder.
      const isPast = key < after && !after.startsWith(key);
      if (mayHold && !isPast) await collect(key, prefix, after, limit, found);
    }
  }

  const store: ObjectStore = {
    async get(key) {
      checkKey(key);
      const file = await locate(key);
      if (file === null) return null;
      let handle: FileHandle;
      try {
        handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      } catch (error) {
        if (isAbsent(error) || codeOf(error) === "ELOOP" || codeOf(error) === "ENXIO") return null;
        throw error;
      }
      try {
        return (await handle.stat()).isFile() ? await handle.readFile() : null;
      } finally {
        await handle.close();
      }
    },
    async put(key, bytes) {
      checkKey(key);
      cleaning ??= removeOldDrafts(drafts, env.now()).catch((error: unknown) => {
        // Reset, so that the next put tries again.
        cleaning = null;
        throw error;
      });
      await cleaning;
      const draft = join(drafts, env.id());
      try {
        await writeDurably(draft, bytes);
        await place(draft, join(root, key));
      } catch (error) {
        await unlink(draft).catch(() => {});
        throw error;
      }
    },
    async delete(key) {
      checkKey(key);
      const file = await locate(key);
      if (file === null) return;
      try {
        await unlink(file);
      } catch (error) {
        if (isAbsent(error) || codeOf(error) === "EISDIR" || codeOf(error) === "EPERM") return;
        throw error;
      }
      await flushFolder(dirname(file)).catch(ignoreAbsent);
      // Empty parent folders are removed too, so that their names can be used as keys.
      for (let folder = dirname(file); folder !== root; folder = dirname(folder)) {
        try {
          await rmdir(folder);
        } catch {
          break;
        }
      }
    },
    async list(prefix, limit, after = "") {
      checkPrefix(prefix);
      const found: string[] = [];
      await collect("", prefix, after, limit, found);
      return found;
    },
    async check() {
      const draft = join(drafts, env.id());
      await writeDurably(draft, new Uint8Array(1));
      await unlink(draft);
    },
    identify: (fresh) => identifyFolder(root, idFile, fresh, drafts),
    async close() {},
  };
  return {
    get: (key) => refusing(store.get(key)),
    put: (key, bytes) => refusing(store.put(key, bytes)),
    delete: (key) => refusing(store.delete(key)),
    list: (prefix, limit, after) => refusing(store.list(prefix, limit, after)),
    check: () => refusing(store.check()),
    identify: (fresh) => refusing(store.identify(fresh)),
    close: store.close,
  };
}

async function removeOldDrafts(drafts: string, now: number): Promise<void> {
  for (const name of await readdir(drafts)) {
    const file = join(drafts, name);
    try {
      const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
      const { mtimeMs } = await handle.stat();
      await handle.close();
      if (now - mtimeMs > draftLifeMs) await unlink(file);
    } catch {
      // Another process has just renamed or deleted it.
    }
  }
}

/** Maps a failure of the file system to a refusal. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SvcError) throw error;
    // A parent in the path is an object, or the key names a folder.
    if (["ENOTDIR", "EISDIR", "ENOTEMPTY", "EEXIST"].includes(codeOf(error)))
      throw new SvcError("invalid_path", {}, { cause: error });
    throw new SvcError("storage_unavailable", {}, { cause: error });
  }
}

function isAbsent(error: unknown): boolean {
  return codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR";
}

function ignoreAbsent(error: unknown): void {
  if (!isAbsent(error)) throw error;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException)?.code ?? "";
}
