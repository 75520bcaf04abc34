import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { diffBundles } from "../../../governance/skills/import/bundle-diff.ts";
import { lineDiff } from "../../../governance/skills/import/line-diff.ts";
import { runs } from "../../support/effort.ts";

/** Applies a unified diff to lines, and checks the lines and numbers that it names. */
function patched(before: readonly string[], diff: string): string[] {
  const after: string[] = [];
  let at = 0;
  for (const line of diff.split("\n").slice(0, -1)) {
    const hunk = /^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$/.exec(line);
    if (hunk) {
      const from = Number(hunk[1]) - (hunk[2] === "0" ? 0 : 1);
      after.push(...before.slice(at, from));
      at = from;
      assert.equal(after.length, Number(hunk[3]) - (hunk[4] === "0" ? 0 : 1));
      continue;
    }
    if (line[0] !== "+") assert.equal(before[at++], line.slice(1));
    if (line[0] !== "-") after.push(line.slice(1));
  }
  return [...after, ...before.slice(at)];
}

const lines = fc.array(fc.constantFrom("a", "b", "c", "d", "e"), { maxLength: 40 });
const textOf = (all: readonly string[]) => all.map((line) => `${line}\n`).join("");

test("a diff applied to the old text gives the new one", () => {
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      assert.deepEqual(patched(before, lineDiff(textOf(before), textOf(after))), after);
    }),
    { numRuns: runs(500) },
  );
});

test("texts that differ in most lines are compared with bounded work", () => {
  const numbered = (word: string) => textOf(Array.from({ length: 4_000 }, (_, at) => word + at));

  const diff = lineDiff(numbered("a"), numbered("b"));

  assert.equal(diff.split("\n").length, 8_002);
});

test("diffs of bundles are cut at their bounds, and binary and long files have none", () => {
  const long = "x\n".repeat(4_001);
  const wide = (word: string) => `${word.repeat(200)}\n`.repeat(100);
  const many = (word: string) => Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`w${at}.md`, wide(word)]));
  const { files, diff_truncated } = diffBundles(
    { "a.md": "same", "assets/a.png": "AAAA", "long.md": long, ...many("a") },
    { "a.md": "same", "assets/a.png": "BBBB", "long.md": `${long}y`, ...many("b") },
  );

  assert.equal(diff_truncated, true);
  assert.deepEqual(
    files.slice(0, 2).map(({ path, binary, diff, truncated }) => [path, binary, diff, truncated]),
    [
      ["assets/a.png", true, null, false],
      ["long.md", false, null, true],
    ],
  );
  assert.ok(files.every(({ diff }) => (diff ?? "").length <= 16_384));
  assert.equal(
    files.reduce((sum, { diff }) => sum + (diff ?? "").length, 0),
    131_072,
  );
});
