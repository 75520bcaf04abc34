import { join } from "node:path";
import Database from "better-sqlite3";
import { lockName } from "../store/config.ts";
import { makeDirectories } from "../store/directories.ts";
import { closeToOthers, makePrivate } from "./private-files.ts";

/** A data directory that belongs to this process until it is released. */
export interface DataDirLock {
  release(): void;
}

/** A connection that nobody refers to is closed by the garbage collector, and its lock with it. */
const held = new Set<Database.Database>();

/**
 * Takes a data directory for this process, and makes the directory when it is not there; throws when another process has it. The
 * lock is the operating system's, on a file of its own, and ends with the process however it ends. Network file systems may not
 * have such locks.
 */
export function lockDataDir(dir: string): DataDirLock {
  makeDirectories(dir);
  const path = join(dir, lockName);
  makePrivate(path);
  closeToOthers(path);
  const db = new Database(path, { timeout: 0 });
  try {
    // A database that nobody writes, for the sake of the engine's portable file locks.
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
