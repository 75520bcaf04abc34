// What a server keeps on the disk, and who else on the machine may read it.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "better-sqlite3";
import { currentRevision } from "../../storage/migrate.ts";
import { turn } from "../support/chat.ts";
import { startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** What the group and others may do with the files of a directory, by name. */
function openToOthers(dir: string): Record<string, string> {
  const files = readdirSync(dir).filter((name) => statSync(join(dir, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, (statSync(join(dir, name)).mode & 0o077).toString(8)]));
}

const closed = { "svc.db": "0", "svc.db-shm": "0", "svc.db-wal": "0", "svc.lock": "0" };

test("a database is closed to others from the moment it is made", async (t) => {
  const atEnd = cleanup(t);
  const umask = process.umask(0);
  atEnd.after(() => void process.umask(umask));
  const path = join(tempDir(atEnd), "svc.db");

  await currentRevision({ engine: "sqlite", path });

  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("the database is its owner's alone, also in a directory that was there, and files of before are closed", async (t) => {
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
  // Somebody who looks into the database keeps its log and its index where they are.
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
