import { chmodSync, closeSync, openSync, statSync } from "node:fs";

/**
 * Creates an empty database file with owner-only rights if there is none. SQLite gives the files next to a database the
 * same rights.
 */
export function makePrivate(path: string): void {
  try {
    // Opens new files only: closing an existing one would release the locks of this process on it.
    closeSync(openSync(path, "wx", 0o600));
  } catch {
    // The file exists already, or SQLite reports later why it cannot be created.
  }
}

/** Removes the rights of group and others from a database and the files of SQLite next to it. */
export function closeToOthers(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) {
    const stats = statSync(path + suffix, { throwIfNoEntry: false });
    if (!stats?.isFile() || (stats.mode & 0o077) === 0) continue;
    try {
      chmodSync(path + suffix, stats.mode & 0o700);
    } catch {
      // The file has another owner but is writable, or the file system has no owners.
    }
  }
}
