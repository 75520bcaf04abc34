// The command `npm test`, on a copy of the tests' tools with a few tests of its own.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { cleanup, tempDir } from "../support/temp.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const atEnd = cleanup();
const tree = tempDir(atEnd);
/** Folders and files of the project that the copy has as its own. */
const own = new Set([".git", ".gitignore", ".gitattributes", "test"]);

function write(path: string, text: string): void {
  mkdirSync(dirname(join(tree, path)), { recursive: true });
  writeFileSync(join(tree, path), text);
}

function git(...args: string[]): string {
  const names = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
  return execFileSync("git", [...names, ...args], { cwd: tree, encoding: "utf8" }).trim();
}

function commit(): string {
  git("add", "--all");
  git("commit", "--quiet", "--message", "a commit");
  return git("rev-parse", "HEAD");
}

/** Runs the command on the copy. */
function run(...args: string[]): { readonly code: number | null; readonly output: string } {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "./strip-types.js", "test/run.ts", ...args],
    { cwd: tree, env: { PATH, HOME, TMPDIR }, encoding: "utf8" },
  );
  return { code: status, output: `${stdout}${stderr}` };
}

/** The files that a run has named, with their results. */
function filesOf(output: string): string[] {
  return [...output.matchAll(/^([✔✖] \S+) {2}/gm)].map(([, named = ""]) => named).sort();
}

const passing = `import { test } from "node:test";\ntest("passes", () => {});\n`;

before(() => {
  for (const name of readdirSync(root)) if (!own.has(name)) symlinkSync(join(root, name), join(tree, name));
  for (const name of ["test/run.ts", "test/runner", "test/support"])
    cpSync(join(root, name), join(tree, name), {
      recursive: true,
      filter: (path) => !path.endsWith(".test.ts"),
    });
  write("test/bus/plain.test.ts", passing);
  write("test/bus/number.ts", "export const seven = 7;\n");
  write("test/bus/between.ts", 'export { seven as number } from "./number.ts";\n');
  write("test/bus/dependent.test.ts", `import { number } from "./between.ts";\n${passing}void number;\n`);
  write("test/bus/reader.test.ts", `${passing}export const reads = "test/bus/number.ts";\n`);
  write(
    "test/bus/skipped.test.ts",
    'import { test } from "node:test";\ntest("waits", { skip: "no sun" }, () => {});\n',
  );
  write(
    "test/bus/failing.test.ts",
    'import { test } from "node:test";\ntest("fails", () => { throw new Error("no"); });\n',
  );
  write("test/bus/empty.test.ts", "export {};\n");
  write("test/long/long.test.ts", passing);
  git("init", "--quiet");
  commit();
});

describe("npm test", () => {
  test("counts every test, prints failures and skips, and exits with 1", () => {
    const { code, output } = run();

    assert.equal(code, 1, output);
    assert.deepEqual(filesOf(output), [
      "✔ test/bus/dependent.test.ts",
      "✔ test/bus/empty.test.ts",
      "✔ test/bus/plain.test.ts",
      "✔ test/bus/reader.test.ts",
      "✔ test/bus/skipped.test.ts",
      "✖ test/bus/failing.test.ts",
    ]);
    assert.match(output, /^# tests 5\n# suites 0\n# pass 3\n# fail 1\n# cancelled 0\n# skipped 1$/m);
    assert.match(output, /^skipped: waits \(test\/bus\/skipped\.test\.ts\): no sun$/m);
    assert.match(output, /✖ fails \(test\/bus\/failing\.test\.ts:2:1\)\n {4}Error: no/);
    assert.match(output, /✖ test\/bus\/empty\.test\.ts\n\n {2}it has no tests/);
    assert.deepEqual(/^failed: (.*)$/m.exec(output)?.[1]?.split(" ").sort(), [
      "test/bus/empty.test.ts",
      "test/bus/failing.test.ts",
    ]);
    assert.match(output, /^started: \d+ processes for 6 files, 0 servers, 0 servers in 0 shared processes$/m);
  });

  test("runs the files whose path contains a word, or says that there are none", () => {
    const plain = run("plain", "dependent");
    const none = run("nobody");

    assert.deepEqual([plain.code, filesOf(plain.output).length], [0, 2], plain.output);
    assert.deepEqual([none.code, filesOf(none.output)], [1, []]);
    assert.match(none.output, /^no test file matches nobody$/m);
  });

  test("--changed runs the files that depend on a change, --since those since a commit", () => {
    const first = git("rev-parse", "HEAD");
    const unchanged = run("--changed");
    write("test/bus/number.ts", "export const seven = 6 + 1;\n");
    const changed = run("--changed");
    const second = commit();
    write("test/bus/new.test.ts", passing);
    const added = run("--changed");
    const sinceFirst = run("--since", first);
    const sinceSecond = run("--since", second);

    assert.deepEqual([unchanged.code, filesOf(unchanged.output)], [0, []]);
    assert.match(unchanged.output, /^no test file depends on a change$/m);
    assert.deepEqual(filesOf(changed.output), ["✔ test/bus/dependent.test.ts", "✔ test/bus/reader.test.ts"]);
    assert.equal(changed.code, 0);
    for (const { output } of [added, sinceSecond]) assert.deepEqual(filesOf(output), ["✔ test/bus/new.test.ts"]);
    assert.deepEqual(filesOf(sinceFirst.output), [
      "✔ test/bus/dependent.test.ts",
      "✔ test/bus/new.test.ts",
      "✔ test/bus/reader.test.ts",
    ]);
  });
});
