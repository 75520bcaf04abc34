import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { checkEvents, childCommand, isAcknowledgement, startChild, type WritingChild } from "../support/kill-store.ts";
import { runStore } from "../support/stores.ts";
import { type Cleanup, cleanup, tempDir } from "../support/temp.ts";

const isRefusal = (line: string): boolean => line === "refused";
const job = { patient: true, writers: 4, textChars: 4000 };

/**
 * Waits until writes are refused, frees space, waits until writes succeed, and compares the database with the
 * acknowledged rows.
 */
async function fillAndFree(
  t: TestContext,
  path: string,
  child: WritingChild,
  makeRoom: () => void,
  atEnd: Cleanup,
): Promise<void> {
  const config = { engine: "sqlite", path } as const;
  await child.printed(20, isRefusal);
  const before = child.lines.filter(isAcknowledgement).length;

  makeRoom();
  await child.printed(before + 200, isAcknowledgement);
  child.process.kill("SIGKILL");
  await child.ended;

  const acknowledged = child.lines.filter(isAcknowledgement);
  t.diagnostic(`${before} events were acknowledged before there was no room, ${acknowledged.length} in all`);
  assert.ok(before > 0);
  const { store } = await runStore(config, atEnd);
  await checkEvents(store, config, acknowledged);
}

test("no acknowledged write is lost when the file may not grow, and writes recover", async (t) => {
  if (spawnSync("prlimit", ["--version"]).status !== 0) return t.skip("needs prlimit of util-linux");
  const atEnd = cleanup(t);
  const path = join(tempDir(atEnd), "svc.db");
  await migrate({ engine: "sqlite", path }, { target: "head", downgrade: false });
  const command = childCommand({ engine: "sqlite", path }, job);
  // A limit of 1.5 MB for each file, which the write-ahead log soon reaches.
  const child = startChild(["bash", "-c", 'ulimit -S -f 1500 && exec "$0" "$@"', ...command]);
  atEnd.after(() => void child.process.kill("SIGKILL"));

  await fillAndFree(
    t,
    path,
    child,
    () => execFileSync("prlimit", ["--pid", String(child.process.pid), "--fsize=unlimited"]),
    atEnd,
  );
});

test("no acknowledged write is lost on a full disk, and writes recover with space", async (t) => {
  const atEnd = cleanup(t);
  const disk = tempDir(atEnd);
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m", "svc-test", disk]);
  if (mounted.status !== 0)
    return t.skip("cannot mount a small file system here; the limit on the file's size stands in for it");
  atEnd.after(() => void spawnSync("umount", ["-l", disk]));
  const path = join(disk, "svc.db");
  await migrate({ engine: "sqlite", path }, { target: "head", downgrade: false });
  const filler = join(disk, "filler");
  // The filler leaves little room beyond the schema; without it there is room for all later data and its write-ahead
  // log.
  writeFileSync(filler, Buffer.alloc(22_000_000));
  const child = startChild(childCommand({ engine: "sqlite", path }, job));
  atEnd.after(() => void child.process.kill("SIGKILL"));

  await fillAndFree(t, path, child, () => rmSync(filler), atEnd);
});
