import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { migrate } from "../../storage/migrate.ts";
import { childCommand, isAcknowledgement, startChild } from "../support/kill-store.ts";
import { canTrace, readTrace } from "../support/strace.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

type LogStep = "log-written" | "log-flushed" | "acknowledged";

/** The system calls of a SQLite store whose order matters. */
const logSteps = {
  made: (call: string) => (/^write\(1<[^>]*>, "\d+ \d+\\n"/.test(call) ? "acknowledged" : null),
  returned(call: string) {
    if (!/svc\.db-wal>/.test(call)) return null;
    if (/^pwrite64\(/.test(call)) return "log-written";
    return /^f(data)?sync\(.*\) += 0$/.test(call) ? "log-flushed" : null;
  },
} as const;

test("the log is flushed to the disk before an event is acknowledged", async (t) => {
  if (!canTrace(t)) return;
  const atEnd = cleanup(t);
  const dir = tempDir(atEnd);
  const config = { engine: "sqlite", path: join(dir, "svc.db") } as const;
  await migrate(config, { target: "head", downgrade: false });
  const trace = join(dir, "trace");
  // One writer, so that each acknowledgement has its own commit.
  const command = childCommand(config, { writers: 1, turnsMax: 20 });

  const child = startChild([
    "strace",
    "-f",
    "-y",
    "-o",
    trace,
    "-e",
    "trace=write,pwrite64,fsync,fdatasync",
    ...command,
  ]);
  const code = await child.ended;

  assert.equal(code, 0);
  const steps = readTrace<LogStep>(readFileSync(trace, "utf8"), logSteps);
  let written = 0;
  let unflushed = 0;
  let acknowledged = 0;
  for (const did of steps) {
    if (did === "log-written") {
      written++;
      unflushed++;
    } else if (did === "log-flushed") unflushed = 0;
    else {
      assert.ok(written > 0, `acknowledgement ${acknowledged} without a write of its own`);
      assert.equal(unflushed, 0, `acknowledgement ${acknowledged} before the log was flushed`);
      written = 0;
      acknowledged++;
    }
  }
  assert.equal(acknowledged, 100);
  assert.equal(child.lines.filter(isAcknowledgement).length, 100);
});

test("the reader of traces finds an acknowledgement that comes before its flush", () => {
  const trace = [
    '10 pwrite64(24</d/svc.db-wal>, "x", 4096, 32) = 4096',
    '9 write(1<pipe:[1]>, "7 0\\n", 4) = 4',
    "10 fsync(24</d/svc.db-wal> <unfinished ...>",
    '9 write(1<pipe:[1]>, "7 1\\n", 4) = 4',
    "10 <... fsync resumed>) = 0",
    "10 fdatasync(24</d/svc.db-wal>) = -1 EIO (Input/output error)",
  ].join("\n");

  const steps = readTrace<LogStep>(trace, logSteps);

  assert.deepEqual(steps, ["log-written", "acknowledged", "acknowledged", "log-flushed"]);
});

test("an object and its folder entries are flushed before a put or delete ends", async (t) => {
  if (!canTrace(t)) return;
  const dir = tempDir(cleanup(t));
  const [root, trace] = [join(dir, "objects"), join(dir, "trace")];
  const calls = "trace=write,fsync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat";
  const program = ["--import", join(here, "../../strip-types.js"), join(here, "../support/object-child.ts"), root];

  const child = startChild(["strace", "-f", "-y", "-o", trace, "-e", calls, process.execPath, ...program]);
  assert.equal(await child.ended, 0);

  const steps = readTrace<string>(readFileSync(trace, "utf8"), {
    made: (call) => /^write\(1<[^>]*>, "(\w+)\\n"/.exec(call)?.[1] ?? null,
    returned(call) {
      const [, name = "", path = ""] = /^(\w+)\(.*?"?(\/[^">]*)[">].* = 0$/.exec(call) ?? [];
      if (!path.startsWith(root)) return null;
      return `${name.replace(/at2?$/, "")} ${path.slice(root.length).replace(/^\/\+drafts\/\w+$/, "draft") || "/"}`;
    },
  });
  const draft = ["fsync draft", "rename draft", "fsync /a/b"];
  assert.deepEqual(steps.slice(steps.indexOf("begin") + 1), [
    ...["fsync draft", "mkdir /a", "mkdir /a/b", "fsync /a", "fsync /", "rename draft", "fsync /a/b", "done"],
    ...[...draft, "done"],
    ...["unlink /a/b/c", "fsync /a/b", "done"],
  ]);
});
