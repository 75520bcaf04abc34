// A machine that lacks a tool: tests that need it are skipped with a reason, and fail in CI.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Cleanup, cleanup, tempDir } from "./support/temp.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs one test of a file with nothing but these programs in its PATH. */
function runWithout({ file, name, programs = {}, ci }: Case & { ci: string }, atEnd: Cleanup) {
  const path = tempDir(atEnd);
  for (const [program, script] of Object.entries(programs))
    writeFileSync(join(path, program), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const args = ["--import", "./strip-types.js", "--test-reporter=tap", `--test-name-pattern=${name}`, file];
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    env: { PATH: path, HOME: path, CI: ci },
    encoding: "utf8",
  });
  return { status, stdout };
}

interface Case {
  readonly what: string;
  readonly file: string;
  readonly name: string;
  readonly programs?: Readonly<Record<string, string>>;
  readonly why: RegExp;
}

const traced = { file: "test/storage/flush-order.test.ts", name: "the log is flushed" };
const cases: readonly Case[] = [
  { what: "strace", ...traced, why: /needs strace/ },
  {
    what: "the right to trace",
    ...traced,
    programs: { strace: "echo 'PTRACE_TRACEME: Operation not permitted' >&2; exit 1" },
    why: /strace may not trace here: PTRACE_TRACEME: Operation not permitted/,
  },
  { what: "a browser", file: "test/http/docs.test.ts", name: "a browser shows every operation", why: /needs Chromium/ },
];

for (const each of cases)
  describe(`without ${each.what}`, () => {
    test("its test fails in CI", (t) => {
      const { status, stdout } = runWithout({ ...each, ci: "true" }, cleanup(t));

      assert.equal(status, 1, stdout);
      assert.match(stdout, each.why);
      assert.match(stdout, /^# fail 1$/m);
    });

    test("its test is skipped elsewhere, with a reason", (t) => {
      const { status, stdout } = runWithout({ ...each, ci: "" }, cleanup(t));

      assert.equal(status, 0, stdout);
      assert.match(stdout, new RegExp(`^ *ok .*# SKIP .*${each.why.source}`, "m"));
      assert.match(stdout, /^# skipped 1$/m);
    });
  });
