import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { meant, nearest } from "../../bus/nearest.ts";
import { runs } from "../support/effort.ts";

const known = ["calculator", "web_fetch", "todo_write", "read", "reads"];

const slips: Readonly<Record<string, string | null>> = {
  calcualtor: "calculator",
  calculater: "calculator",
  calculato: "calculator",
  "web-fetch": "web_fetch",
  WEB_FETCH: "web_fetch",
  webfetch: "web_fetch",
  todo_wirtes: "todo_write",
  raed: "read",
  red: "read",
  // One letter differs, which is too much for so short a name.
  r: null,
  calc: null,
  something_else: null,
  // A prefix this long has one match only.
  calcu: "calculator",
  "web-f": "web_fetch",
};

for (const [name, found] of Object.entries(slips))
  test(`${name} is ${found === null ? "near nothing" : `near ${found}`}`, () => {
    assert.equal(nearest(name, known), found);
  });

test("a prefix of several names, or of none but its start, has no match", () => {
  assert.equal(nearest("model", ["model_routes_of_all", "model_providers"]), null);
  assert.equal(nearest("fetch", known), null);
  assert.equal(nearest("reader", ["readers", "reader_of_all"]), "readers");
});

test("the nearer name is suggested, and the first of two equal ones", () => {
  assert.equal(nearest("reads", known), "reads");
  assert.equal(nearest("abcx", ["abcd", "abce"]), "abcd");
});

test("all names are listed when none is near and they are few", () => {
  const names = Array.from({ length: 41 }, (_, at) => `name_${at}`);

  assert.equal(meant("calcualtor", known), " (did you mean calculator?)");
  assert.equal(meant("zebra", ["a", "b"]), " (there are a, b)");
  assert.match(meant("zebra", names.slice(0, 40)), /, name_39\)$/);
  assert.equal(meant("zebra", names), "");
  assert.equal(meant("zebra", []), "");
});

test("a name's distance is counted letter by letter", () => {
  const letters = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 7 });
  fc.assert(
    fc.property(letters, letters, (name, other) => {
      const least = Math.min(2, Math.floor(name.length / 3));
      const isBeginning = name.length >= 5 && other.startsWith(name);

      assert.equal(nearest(name, [other]) !== null, distance(name, other) <= least || isBeginning);
    }),
    { numRuns: runs(3_000) },
  );
});

/** The optimal string alignment distance, by its definition. */
function distance(a: string, b: string): number {
  if (a === "" || b === "") return a.length + b.length;
  const [restA, restB] = [a.slice(1), b.slice(1)];
  const isSwapped = a.length > 1 && b.length > 1 && a[0] === b[1] && a[1] === b[0];
  return Math.min(
    distance(restA, b) + 1,
    distance(a, restB) + 1,
    distance(restA, restB) + (a[0] === b[0] ? 0 : 1),
    isSwapped ? distance(a.slice(2), b.slice(2)) + 1 : Infinity,
  );
}

test("hostile lengths cost nothing", () => {
  const long = "a".repeat(1e6);

  assert.equal(nearest(long, ["b".repeat(1e6)]), null);
  assert.equal(nearest("aaaaaa", [long]), null);
});
