import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { migrate } from "../../storage/migrate.ts";
import { childCommand, isAcknowledgement, startChild } from "../support/kill-store.ts";
import { canTrace } from "../support/strace.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** What the process did, in order, as far as it matters here. */
type Step = { readonly did: "log-written" | "log-flushed" | "acknowledged" };

/** Reads a trace of `strace -f -y`. A call counts when it returns, an acknowledgement when it is made. */
function readTrace(text: string): Step[] {
  const steps: Step[] = [];
  const unfinished = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, thread = "", call = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (/^write\(1<[^>]*>, "\d+ \d+\\n"/.test(call)) steps.push({ did: "acknowledged" });
    if (call.endsWith("<unfinished ...>")) {
      unfinished.set(thread, call);
      continue;
    }
    const resumed = /^<\.\.\. (\w+) resumed>(.*)$/.exec(call);
    const whole = resumed ? (unfinished.get(thread) ?? "") + resumed[2] : call;
    if (!/svc\.db-wal>/.test(whole)) continue;
    if (/^pwrite64\(/.test(whole)) steps.push({ did: "log-written" });
    else if (/^f(data)?sync\(.*\) += 0$/.test(whole)) steps.push({ did: "log-flushed" });
  }
  return steps;
}

test("the log is flushed to the disk before an event is acknowledged", async (t) => {
  if (!canTrace(t)) return;
  const atEnd = cleanup(t);
  const dir = tempDir(atEnd);
  const config = { engine: "sqlite", path: join(dir, "svc.db") } as const;
  await migrate(config, { target: "head", downgrade: false });
  const trace = join(dir, "trace");
  // One conversation at a time, so that each acknowledgement has its own commit.
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
  const steps = readTrace(readFileSync(trace, "utf8"));
  let written = 0;
  let unflushed = 0;
  let acknowledged = 0;
  for (const { did } of steps) {
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

test("the reader of traces sees an acknowledgement that comes too early", () => {
  const trace = [
    '10 pwrite64(24</d/svc.db-wal>, "x", 4096, 32) = 4096',
    '9 write(1<pipe:[1]>, "7 0\\n", 4) = 4',
    "10 fsync(24</d/svc.db-wal> <unfinished ...>",
    '9 write(1<pipe:[1]>, "7 1\\n", 4) = 4',
    "10 <... fsync resumed>) = 0",
    "10 fdatasync(24</d/svc.db-wal>) = -1 EIO (Input/output error)",
  ].join("\n");

  const steps = readTrace(trace).map(({ did }) => did);

  assert.deepEqual(steps, ["log-written", "acknowledged", "acknowledged", "log-flushed"]);
});
