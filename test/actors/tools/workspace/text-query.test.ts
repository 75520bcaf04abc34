import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { expansion, literalQuery, regexQuery } from "../../../../actors/tools/workspace/text-query.ts";
import { runs } from "../../../support/effort.ts";

const atom = fc.constantFrom("a", "\\pL", "[a-z]", ".", "\\d", "\\b", "(?i)k", "é");
const repeat = fc.constantFrom("", "*", "+?", "?", "{3}", "{2,5}", "{4,}", "{0,7}");
const expression: fc.Arbitrary<string> = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { depthSize: "small" },
    fc.tuple(atom, repeat).map((parts) => parts.join("")),
    fc.tuple(tie("node"), tie("node")).map((parts) => parts.join("")),
    fc.tuple(tie("node"), tie("node"), repeat).map(([a, b, times]) => `(${a}|${b})${times}`),
    fc.tuple(tie("node"), repeat).map(([inner, times]) => `(?:${inner})${times}`),
  ),
})).node;

test("the estimate of an expression's size is never much too low", () => {
  fc.assert(
    fc.property(expression, (text) => {
      let size: number;
      try {
        size = RE2JS.compile(text).programSize();
      } catch {
        return;
      }
      assert.ok(size <= 3 * expansion(text), `${text}: ${size}, guessed ${expansion(text)}`);
    }),
    { numRuns: runs(1000) },
  );
});

test("ranges that are compiled letter by letter are few", async () => {
  const range = "[a-\\x{1FFFF}]";
  for (const query of [
    `(?i)${range.repeat(3)}`,
    `(?i:${range})(?si)${range}${range}`,
    `(?i)[a-\u{1ffff}b-\u{1ffff}c-\u{1ffff}]`,
    "(?i)[a-\\377b-\\377c-\\377]",
  ])
    await assert.rejects(regexQuery(query), /too large/, query);
  for (const query of [`(?i)${range.repeat(2)}`, range.repeat(5), "(?i)[a-z][0-9]-[a-f]x-\\d", "(?i)\\pL{20}"])
    assert.ok((await regexQuery(query)).stepsPerChar > 0, query);
});

test("queries return the start of the first match", async () => {
  assert.equal(literalQuery("b.").find("ab.b."), 1);
  assert.equal(literalQuery("B").find("ab"), -1);
  assert.equal((await regexQuery("b+")).find("aabb"), 2);
  assert.equal((await regexQuery("^b")).find("ab"), -1);
  assert.equal((await regexQuery("$")).find("ab"), 2);
});

test("a literal of two lines is refused, since lines are searched one by one", () => {
  assert.throws(() => literalQuery("a\nb"), /one by one/);
  assert.throws(() => literalQuery("a\r"), /one by one/);
});
