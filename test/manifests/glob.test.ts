import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { matchAnyGlob, matchGlob } from "../../manifests/glob.ts";
import { runs } from "../support/effort.ts";

test("a glob matches the whole text, * any number and ? one character", () => {
  const cases: [string, string, boolean][] = [
    ["read_file", "read_file", true],
    ["read_file", "read_files", false],
    ["read_file", "Read_file", false],
    ["*", "", true],
    ["*", "anything", true],
    ["", "", true],
    ["", "a", false],
    ["read_*", "read_", true],
    ["read_*", "read_file", true],
    ["*_file", "read_file", true],
    ["*_file", "read_file2", false],
    ["r*d_*e", "read_file", true],
    ["read_fil?", "read_file", true],
    ["read_file?", "read_file", false],
    ["?", "", false],
    ["**", "ab", true],
    ["*a*b", "xaxxb", true],
    ["*a*b", "xaxxbx", false],
    ["mcp__*", "mcp__x__y", true],
    ["[ab]", "a", false],
    ["[ab]", "[ab]", true],
    ["a.c", "abc", false],
    ["a\\*", "a*", false],
  ];

  for (const [pattern, text, fits] of cases) assert.equal(matchGlob(pattern, text), fits, `${pattern} on ${text}`);
  assert.equal(matchAnyGlob(["a", "b*"], "bc"), true);
  assert.equal(matchAnyGlob([], "bc"), false);
});

test("a glob matches the same texts as its regular expression", () => {
  const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), maxLength: 8 });
  const text = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 10 });

  fc.assert(
    fc.property(pattern, text, (glob, subject) => {
      const expression = glob.replaceAll("*", "[ab]*").replaceAll("?", "[ab]");
      assert.equal(matchGlob(glob, subject), new RegExp(`^(?:${expression})$`).test(subject));
    }),
    { numRuns: runs(2000) },
  );
});

test("hostile globs take a bounded number of steps", () => {
  const steps = (pattern: string, text: string) => {
    const counter = { steps: 0 };
    matchGlob(pattern, text, counter);
    return counter.steps;
  };
  const text = "a".repeat(2000);

  assert.ok(steps(`${"*a".repeat(100)}b`, text) <= 2 * (text.length + 201), "many stars");
  assert.ok(steps(`${"*".repeat(200)}b`, text) <= 2 * text.length + 201, "stars alone");
  assert.ok(steps(`*${"a".repeat(100)}b`, text) <= 102 * (text.length + 1), "one star before a long tail");
});
