import Database from "better-sqlite3";
import { SvcError } from "../../bus/errors.ts";

/** Result codes that speak of the disk, the file or the memory, and not of the statement. */
const machinery = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|BUSY|LOCKED|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH|NOLFS)/;

/** What a failure of SQLite means to the caller. */
export function sqliteRefusal(error: unknown, statement: string): SvcError {
  if (error instanceof SvcError) return error;
  if (error instanceof Database.SqliteError) {
    if (error.code.startsWith("SQLITE_CONSTRAINT"))
      return new SvcError("conflict", { subject: statement }, { cause: error });
    // A table or column that is missing means a schema that is behind: an operator's matter, as a full disk is.
    if (machinery.test(error.code) || /^no such (table|column)/.test(error.message))
      return new SvcError("storage_unavailable", {}, { cause: error });
  }
  return new SvcError("internal_error", {}, { cause: error });
}
