import assert from "node:assert/strict";
import { test } from "node:test";
import Database from "better-sqlite3";
import { errorText } from "../../../governance/settings/problem-lines.ts";

test("an error tells its words, its code where it has none, and of SQLite's the code that says which of many it was", () => {
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
