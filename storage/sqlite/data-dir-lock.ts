import { join } from "node:path";
import Database from "better-sqlite3";
import { lockName } from "../store/config.ts";
import { makeDirectories } from "../store/directories.ts";
import { closeToOthers, makePrivate } from "./private-files.ts";

/** The lock of a data directory, held by this process until it is released. */
export interface DataDirLock {
  release(): void;
}

/** Keeps the connections reachable: the garbage collector would close an unreferenced one and release its lock. */
const held = new Set<Database.Database>();

/**
 * Locks a data directory for this process and creates it if absent. Throws if another process holds it. The operating
 * system's lock on a separate file ends with the process, even after a crash. Network file systems may not support such
 * locks.
 */
export function lockDataDir(dir: string): DataDirLock {
  makeDirectories(dir);
  const path = join(dir, lockName);
  makePrivate(path);
  closeToOthers(path);
  const db = new Database(path, { timeout: 0 });
  try {
    // An otherwise unused database, which provides the engine's portable file locks.
    db.pragma("journal_mode = DELETE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (error instanceof Database.SqliteError && error.code === "SQLITE_BUSY")
      throw new Error(`another process uses the data directory ${dir}`, { cause: error });
    throw error;
  }
  held.add(db);
  return {
    release() {
      held.delete(db);
      db.close();
    },
  };
}
