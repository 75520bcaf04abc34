import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";

/** Result codes that concern the disk, the file or the memory, and not the statement. */
const machinery = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|BUSY|LOCKED|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH|NOLFS)/;

/** Maps a failure of SQLite to a refusal. */
export function sqliteRefusal(error: unknown, statement: string): SvcError {
  if (error instanceof SvcError) return error;
  if (error instanceof Database.SqliteError) {
    if (error.code.startsWith("SQLITE_CONSTRAINT"))
      return new SvcError("conflict", { subject: statement }, { cause: error });
    if (machinery.test(error.code) || isSchemaMissing(error))
      return new SvcError("storage_unavailable", {}, { cause: error });
  }
  return new SvcError("internal_error", {}, { cause: error });
}

/**
 * True if a table or a column is missing because the schema is behind. An operator must act, as for a full disk, but
 * only this statement fails.
 */
export function isSchemaMissing(error: unknown): boolean {
  return (
    error instanceof Database.SqliteError &&
    /^no such (table|column)|^table \S+ has no column named/.test(error.message)
  );
}
