import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { JsonFault, type JsonRules, parseStrictJson } from "../../bus/strict-json.ts";
import { runs } from "../support/effort.ts";

/** The reason for a refusal; empty when the text is accepted. */
function faultOf(text: string, rules?: JsonRules): string {
  try {
    parseStrictJson(text, rules);
    return "";
  } catch (error) {
    assert.ok(error instanceof JsonFault, String(error));
    return error.message;
  }
}

/** `count` members, none twice, without the braces. */
const members = (count: number, value = "1") => Array.from({ length: count }, (_, at) => `"k${at}":${value}`).join(",");
const list = (count: number, item: string) => `[${Array(count).fill(item).join(",")}]`;
/** Text that JSON.parse refuses. A bound reported in spite of it was found while reading, before any value was made. */
const garbage = "}}]]garbage";

describe("the bounds of a JSON text (decision 74: members, values and depth)", () => {
  test("one object has at most 1,000 members, at the top and below it", () => {
    const most = `{${members(1_000)}}`;
    const more = `{${members(1_001)}}`;

    assert.equal(faultOf(most), "");
    assert.equal(faultOf(`[{"a":${most}},${most}]`), "");
    assert.equal(faultOf(more), "has an object of more than 1000 members");
    assert.equal(faultOf(`[{"a":[${more}]}]`), "has an object of more than 1000 members");
  });

  test("members of nested objects do not count for an object around them", () => {
    const inner = `{${members(600)}}`;

    assert.equal(faultOf(`{"before":1,"inner":[${inner},${inner}],${members(998)}}`), "");
    assert.match(faultOf(`{"before":1,"inner":[${inner},${inner}],${members(999)}}`), /more than 1000 members/);
  });

  test("all objects together have at most 60,000 members", () => {
    const most = `[${list(60, `{${members(1_000)}}`)}]`;

    assert.equal(faultOf(most), "");
    assert.equal(faultOf(`[${most},{"one":1}]`), "has more than 60000 members");
  });

  test("a caller may lower the bound of members", () => {
    const text = `[{${members(500)}},{${members(500)}}]`;

    assert.equal(faultOf(text, { membersMax: 1_000 }), "");
    assert.equal(faultOf(text, { membersMax: 999 }), "has more than 999 members");
  });

  test("a text has at most 100,000 values, of any kind, with the root", () => {
    for (const item of ["{}", "[]", '"text"', '"\\n"', "-1.5e3", "0", "true", "false", "null"]) {
      assert.equal(faultOf(list(99_999, item)), "", item);
      assert.equal(faultOf(list(100_000, item)), "has more than 100000 values", item);
    }
  });

  test("a value is counted once; keys and the insides of texts are not values", () => {
    const pair = '{"true, [null] {1}":" [1,2,3] \\" false "}';

    assert.equal(faultOf(list(49_999, pair)), "");
    assert.equal(faultOf(list(50_000, pair)), "has more than 100000 values");
  });

  test("an excess is found while reading, and the text after it is not read", () => {
    assert.match(faultOf(`{${members(1_001)}${garbage}`), /more than 1000 members/);
    assert.match(faultOf(`[${list(60, `{${members(1_000)}}`)},{"one":1${garbage}`), /more than 60000 members/);
    assert.match(faultOf(`[${Array(100_000).fill("1").join(",")}${garbage}`), /more than 100000 values/);
    assert.match(faultOf(`${"[".repeat(65)}${garbage}`), /deeper than 64/);
  });

  test("any text is within the bounds exactly when its value is", () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    const bounds = fc.record({ items: fc.integer({ min: 0, max: 20 }), membersMax: fc.integer({ min: 0, max: 20 }) });
    fc.assert(
      fc.property(value, bounds, (one, { items, membersMax }) => {
        const whole = Array(items).fill(one);
        const text = JSON.stringify(whole);
        fc.pre(!text.includes("__proto__") && !/\\u0000|\d{16}/.test(text));

        const tooMany = membersIn(JSON.parse(text)) > membersMax;

        assert.equal(faultOf(text, { membersMax }), tooMany ? `has more than ${membersMax} members` : "");
      }),
      { numRuns: runs(500) },
    );
  });
});

/** Texts that are nearly JSON: a value with a few characters replaced, removed or inserted. */
const nearlyJson = fc
  .record({
    value: fc.jsonValue({ maxDepth: 4 }),
    edits: fc.array(
      fc.record({
        at: fc.nat(400),
        cut: fc.nat(2),
        put: fc.constantFrom(
          ...["", '"', ",", ":", "{", "}", "[", "]", "0", "-", ".", "e9", "9".repeat(16), " ", '"a":1,', "true", "\0"],
        ),
      }),
      { maxLength: 3 },
    ),
  })
  .map(({ value, edits }) => {
    let text = JSON.stringify(value);
    for (const { at, cut, put } of edits) {
      const from = text.length === 0 ? 0 : at % text.length;
      text = text.slice(0, from) + put + text.slice(from + cut);
    }
    return text;
  });

test("a plain text is accepted and refused like one that needs the slow path", () => {
  const rules = fc.record({
    membersMax: fc.integer({ min: 0, max: 12 }),
    refusedKeys: fc.constantFrom(new Set<string>(), new Set(["a", ""])),
  });
  const outcome = (text: string, of: JsonRules): unknown => {
    const fault = faultOf(text, of);
    return fault === "" ? parseStrictJson(text, of) : fault;
  };
  fc.assert(
    fc.property(nearlyJson, rules, (text, of) => {
      // The escape in the second one is the letter of the first.
      assert.deepEqual(outcome(`["z",${text}]`, of), outcome(`["\\u007a",${text}]`, of));
    }),
    { numRuns: runs(3_000) },
  );
});

test("a text is at most 64 deep, however plain it is", () => {
  const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}0${"}]".repeat(depth / 2)}`;

  assert.equal(faultOf(nested(64)), "");
  assert.equal(faultOf(nested(66)), "is nested deeper than 64");
  assert.equal(faultOf(`[${nested(64)}]`), "is nested deeper than 64");
});

test("a duplicate key is named in the refusal, however plain the text is", () => {
  assert.equal(faultOf('{"a":1,"b":{"a":1},"a":2}'), 'has the key "a" twice in one object');
  assert.equal(faultOf('[{"a":1},{"a":1,"b":[{"c":1,"c":1}]}]'), 'has the key "c" twice in one object');
  assert.match(faultOf('{"__proto__":1}'), /__proto__/);
  assert.match(faultOf('{"a":{"constructor":1}}', { refusedKeys: new Set(["constructor"]) }), /constructor/);
});

function membersIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const below = Object.values(value).reduce((sum: number, item) => sum + membersIn(item), 0);
  return Array.isArray(value) ? below : below + Object.keys(value).length;
}

test("a NUL or lone surrogate is refused in texts and keys, raw or escaped", () => {
  for (const bad of ["\0", "\\u0000", "\ud800", "\\ud800", "\\udfff x"]) {
    assert.notEqual(faultOf(`["${bad}"]`), "", JSON.stringify(bad));
    assert.notEqual(faultOf(`{"a":1,"${bad}":1}`), "", JSON.stringify(bad));
    // After a text with an escape that is none of these.
    assert.notEqual(faultOf(`["\\n","plain","${bad}"]`), "", JSON.stringify(bad));
  }
  assert.equal(faultOf('["\\ud83d\\ude00","\u{1f600}","\\\\u0000"]'), "");
});
