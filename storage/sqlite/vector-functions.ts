import type Database from "better-sqlite3";

/** Path of sqlite-vec; null without the package or its binary for this machine. */
const path = await import("sqlite-vec")
  .then(
    ({ getLoadablePath }) => getLoadablePath(),
    () => null,
  )
  .catch(() => null);

/** Loads the functions of sqlite-vec into a connection. Without them vectors are off, which `vectorsAreOn` reports. */
export function loadVectorFunctions(db: Database.Database): void {
  if (path === null) return;
  try {
    db.loadExtension(path);
  } catch {
    // The binary needs another C library than that of this machine.
  }
}
