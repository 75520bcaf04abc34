import assert from "node:assert/strict";
import { test } from "node:test";
import Database from "better-sqlite3";
import { errorText } from "../../../governance/settings/problem-lines.ts";

test("an error shows its text, its code if it has no text, and SQLite's extended code", () => {
  const refused = Object.assign(new Error(""), { code: "ECONNREFUSED" });
  const missing = Object.assign(new Error("no such file"), { code: "ENOENT" });

  assert.equal(errorText("just words"), "just words");
  assert.equal(errorText(refused), "ECONNREFUSED");
  assert.equal(errorText(missing), "no such file");
  assert.equal(
    errorText(new Database.SqliteError("file is not a database", "SQLITE_NOTADB")),
    "file is not a database",
  );
  assert.equal(
    errorText(new Database.SqliteError("disk I/O error", "SQLITE_IOERR_SHORT_READ")),
    "disk I/O error (SQLITE_IOERR_SHORT_READ)",
  );
});
