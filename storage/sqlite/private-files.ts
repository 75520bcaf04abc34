import { chmodSync, closeSync, openSync, statSync } from "node:fs";

/** Makes an empty database for its owner alone where there is none. SQLite gives what it puts beside a database the same rights. */
export function makePrivate(path: string): void {
  try {
    // Nothing is opened that was there before: closing it would end the locks that this process has on it.
    closeSync(openSync(path, "wx", 0o600));
  } catch {
    // It is there, or SQLite says why it cannot be.
  }
}

/** Takes a database and what SQLite keeps beside it from everybody but the owner. */
export function closeToOthers(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) {
    const stats = statSync(path + suffix, { throwIfNoEntry: false });
    if (!stats?.isFile() || (stats.mode & 0o077) === 0) continue;
    try {
      chmodSync(path + suffix, stats.mode & 0o700);
    } catch {
      // Somebody else's file that we may write to, or a file system that knows no owners.
    }
  }
}
