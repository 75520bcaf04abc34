import { dirname } from "node:path";
import Database from "better-sqlite3";
import { makeDirectories } from "../store/directories.ts";
import { inRevision, revisionsTable, type SchemaSession, statementsOf } from "../store/migration.ts";
import { closeToOthers, makePrivate } from "./private-files.ts";

/** Max wait for another process's lock. */
const busyMs = 30_000;
/** Length of one wait, during which the thread is blocked and receives no signal. */
const busyPieceMs = 200;

/**
 * Opens the file for changing its schema; creates it and its directory if absent. A change also removes the rights of
 * others. `pause` is awaited repeatedly while waiting for a lock; if it rejects, the wait ends.
 */
export async function openSqliteSchema(path: string, pause?: () => Promise<void>): Promise<SchemaSession> {
  makeDirectories(dirname(path));
  makePrivate(path);
  const db = new Database(path, { timeout: busyPieceMs });
  try {
    await whenFree(() => db.pragma("journal_mode = WAL"), pause);
  } catch (error) {
    db.close();
    throw error;
  }
  db.pragma("synchronous = FULL");

  function revisions(): string[] {
    const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'schema_revisions'").get();
    if (!table) return [];
    return db.prepare<[], string>("SELECT revision FROM schema_revisions ORDER BY revision").pluck().all();
  }

  return {
    revisions: async () => revisions(),
    async change(choose) {
      closeToOthers(path);
      await whenFree(() => db.exec("BEGIN IMMEDIATE"), pause);
      try {
        db.exec(revisionsTable);
        const changes = choose(revisions());
        for (const { revision, name, direction, steps } of changes) {
          try {
            for (const statement of statementsOf(steps, "sqlite")) db.exec(statement);
          } catch (error) {
            throw inRevision(revision, error);
          }
          if (direction === "up")
            db.prepare("INSERT INTO schema_revisions VALUES (?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))").run(
              revision,
              name,
            );
          else db.prepare("DELETE FROM schema_revisions WHERE revision = ?").run(revision);
        }
        db.exec("COMMIT");
        return changes.length > 0;
      } catch (error) {
        if (db.inTransaction) db.exec("ROLLBACK");
        throw error;
      }
    },
    async close() {
      db.close();
    },
  };
}

/** Retries `work` until the database is not locked, in short waits. */
async function whenFree(work: () => unknown, pause?: () => Promise<void>): Promise<void> {
  for (let leftMs = busyMs; ; leftMs -= busyPieceMs) {
    try {
      work();
      return;
    } catch (error) {
      const isBusy = error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
      if (!isBusy || leftMs <= busyPieceMs) throw error;
    }
    await pause?.();
  }
}
