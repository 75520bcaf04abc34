import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { firstPlaces, fits, nextPlaces, parsePattern } from "../../../../actors/tools/workspace/path-pattern.ts";
import { ToolRefusal } from "../../../../actors/tools/workspace/refusal.ts";
import { runs } from "../../../support/effort.ts";

/** True if a walk down the path ends in a match of the pattern. */
function matches(pattern: string, path: string, counter?: { steps: number }): boolean {
  const { base, parts } = parsePattern(pattern);
  const names = path.split("/");
  if (base.some((name, at) => names[at] !== name)) return false;
  let places = firstPlaces(parts);
  for (const name of names.slice(base.length)) places = nextPlaces(parts, places, name, counter);
  return fits(parts, places);
}

const table: [string, string, boolean][] = [
  ["*.ts", "a.ts", true],
  ["*.ts", "src/a.ts", false],
  ["**/*.ts", "a.ts", true],
  ["**/*.ts", "a/b/c.ts", true],
  ["src/**", "src/a", true],
  ["src/**", "src/a/b", true],
  ["src/**", "src", false],
  ["**", "a", true],
  ["a/**/b", "a/b", true],
  ["a/**/b", "a/x/y/b", true],
  ["a/**/b", "a/x/y/c", false],
  ["**/a/**/b", "x/a/y/b", true],
  ["**/a/**/a", "a", false],
  ["?", "ab", false],
  ["a?c", "abc", true],
  ["A", "a", false],
  ["*", ".env", true],
  ["**/config", ".git/config", false],
  [".git/*", ".git/config", true],
  ["*/x", ".git/x", false],
];
for (const [pattern, path, expected] of table) {
  test(`${pattern} ${expected ? "fits" : "does not fit"} ${path}`, () => {
    assert.equal(matches(pattern, path), expected);
  });
}

test("patterns match the same paths as their regular expression", () => {
  const name = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 3 });
  const part = fc.oneof(
    fc.constant("**"),
    fc.string({ unit: fc.constantFrom("a", "b", "*", "?"), minLength: 1, maxLength: 3 }),
  );
  const pattern = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join("/"));
  const path = fc.array(name, { minLength: 1, maxLength: 5 }).map((names) => names.join("/"));
  fc.assert(
    fc.property(pattern, path, (glob, text) => {
      let fit: boolean;
      try {
        fit = matches(glob, text);
      } catch (error) {
        assert.ok(error instanceof ToolRefusal);
        return;
      }
      const parts = (glob.endsWith("**") ? `${glob}/*` : glob).split("/");
      const source = parts.map((piece, at) => {
        if (piece === "**") return "(?:[^/]+/)*";
        const body = piece.replaceAll("*", "[^/]*").replaceAll("?", "[^/]");
        return at < parts.length - 1 ? `${body}/` : body;
      });
      assert.equal(fit, new RegExp(`^${source.join("")}$`).test(text), `${glob} ${text}`);
    }),
    { numRuns: runs(3000) },
  );
});
