// Files that a server stores, and their permissions for other users of the machine.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "better-sqlite3";
import { currentRevision } from "../../storage/migrate.ts";
import { turn } from "../support/chat.ts";
import { startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** The permissions of group and others for the files of a directory, by name. */
function openToOthers(dir: string): Record<string, string> {
  const files = readdirSync(dir).filter((name) => statSync(join(dir, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, (statSync(join(dir, name)).mode & 0o077).toString(8)]));
}

const closed = { "svc.db": "0", "svc.db-shm": "0", "svc.db-wal": "0", "svc.lock": "0" };

test("a database is private from its creation", async (t) => {
  const atEnd = cleanup(t);
  const umask = process.umask(0);
  atEnd.after(() => void process.umask(umask));
  const path = join(tempDir(atEnd), "svc.db");

  await currentRevision({ engine: "sqlite", path });

  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("a database is private in an existing directory too, and older files become so", async (t) => {
  const atEnd = cleanup(t);
  const umask = process.umask(0o022);
  atEnd.after(() => void process.umask(umask));
  const dataDir = join(tempDir(atEnd), "data");
  mkdirSync(dataDir, { mode: 0o755 });

  const server = await startServerProcess({ atEnd, dataDir });
  await server.post("/chat", turn("quick", "hello", { thread_id: "t" }));
  const made = openToOthers(dataDir);
  await server.kill();
  for (const name of readdirSync(dataDir)) if (name.startsWith("svc.")) chmodSync(join(dataDir, name), 0o644);
  const opened = openToOthers(dataDir);
  // An open reader keeps the database's -wal and -shm files in place.
  const looking = new Database(join(dataDir, "svc.db"), { readonly: true });
  atEnd.after(() => void looking.close());
  looking.pragma("user_version");
  await server.restart();
  await server.post("/chat", turn("quick", "hello again", { thread_id: "t" }));
  const found = openToOthers(dataDir);

  for (const modes of [made, found])
    assert.deepEqual(Object.fromEntries(Object.entries(modes).filter(([name]) => name in closed)), closed);
  assert.deepEqual([...new Set([...Object.values(made), ...Object.values(found)])], ["0"]);
  assert.ok(Object.keys(opened).includes("svc.db-wal"), "the log was left behind by the kill");
});
