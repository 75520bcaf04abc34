import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { depthMax, manifestBytesMax } from "../../../manifests/bounds.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { copyJson, readText } from "../../../manifests/parse/read-source.ts";
import { runs } from "../../support/effort.ts";
import { agent, problemsOf } from "../support.ts";

function refusal(text: string): { type: string; msg: string } | undefined {
  const [problem] = problemsOf(() => readText(text));
  return problem && { type: problem.type, msg: problem.msg };
}

test("YAML and JSON of the same manifest parse alike", () => {
  const yaml = "metadata:\n  name: x\nspec:\n  tools: [calculator]\n  model:\n    temperature: 0.5\n";
  const json =
    '{\n\t"metadata": {"name": "x"},\n\t"spec": {"tools": ["calculator"], "model": {"temperature": 5e-1}}\n}';

  assert.deepEqual(parseManifest(yaml), parseManifest(json));
});

test("words that other versions of YAML read as booleans and dates stay text", () => {
  assert.deepEqual(readText("a: off\nb: no\nc: 2024-01-01\nd: 1_000\n"), {
    a: "off",
    b: "no",
    c: "2024-01-01",
    d: "1_000",
  });
});

test("a text that two parsers could read differently is refused with its place", () => {
  const cases: [string, string, RegExp][] = [
    ["a duplicate key", "a: 1\na: 2", /^Line 2, column 1: the key "a" occurs twice\.$/],
    ["a duplicate key of JSON", '{"a": {"b": 1, "b": 2}}', /the key "b" occurs twice/],
    ["a number and a text as the same key", '1: a\n"1": b', /the key "1" occurs twice/],
    [
      "a text with a colon and without quotes",
      "name: x\ndescription: Note: this",
      /^Line 2, column 14: the line has a second colon followed by a blank; put a text with one in quotes\.$/,
    ],
    [
      "a text with a colon between braces",
      "a: {b: Note: this}",
      /^Line 1, column 8: there is a second colon followed by a blank between two commas or brackets; .* in quotes\.$/,
    ],
    [
      "a text with a comma between braces",
      "a: {b: Hello, world}",
      /^Line 1, column 15: the key "world" has no value; between braces a comma ends a text, .* in quotes\.$/,
    ],
    ["a custom tag", "a: !secret x", /^Line 1, column 4: Unresolved tag: !secret/],
    ["a tag for code", 'a: !!js/function "x"', /Unresolved tag/],
    ["binary", "a: !!binary aGk=", /Unresolved tag/],
    ["a set", "a: !!set {b}", /Unresolved tag/],
    ["a list as key", "? [a, b]\n: c", /keys must be strings/],
    ["an alias as key", "a: &a k\n*a : 3", /keys must be strings/],
    ["two documents", "a: 1\n---\nb: 2", /more than one document/],
    ["an open bracket", "a: [1, 2", /^Line 1/],
    ["a bad escape", 'a: "\\x"', /Invalid escape/],
    ["a whole number beyond 2^53", "a: 9007199254740993", /too large to be exact/],
  ];

  for (const [what, text, says] of cases) {
    const found = refusal(text);
    assert.equal(found?.type, "syntax", what);
    assert.match(found?.msg ?? "", says, what);
  }
});

test("merge keys are keys like any other, and so unknown", () => {
  const [problem] = problemsOf(() => parseManifest("metadata: &m {name: x}\nspec:\n  <<: *m\n"));

  assert.deepEqual(problem?.loc, ["spec", "<<"]);
  assert.equal(problem?.type, "extra_forbidden");
});

test("__proto__ is refused in texts and values, at the top and deep inside free values", () => {
  const sources = [
    "metadata: {name: x}\n__proto__: {polluted: true}",
    '{"metadata": {"name": "x"}, "spec": {"extensions": {"p": {"__proto__": {"polluted": true}}}}}',
    JSON.parse('{"metadata": {"name": "x"}, "__proto__": {"polluted": true}}'),
    JSON.parse('{"metadata": {"name": "x"}, "spec": {"output_schema": {"__proto__": {"polluted": true}}}}'),
  ];

  for (const source of sources) {
    const problems = problemsOf(() => parseManifest(source));
    assert.deepEqual(
      problems.map(({ type, loc }) => [type, loc.at(-1)]),
      [["extra_forbidden", "__proto__"]],
    );
  }
  assert.equal(({} as { polluted?: true }).polluted, undefined);
});

test("nesting is bounded before any recursive function sees it", () => {
  const deep = 500_000;
  const texts = ["[".repeat(deep), "- ".repeat(deep), "? ".repeat(deep), ": ".repeat(deep), '{"a":'.repeat(deep / 5)];

  for (const text of texts) assert.match(refusal(text)?.msg ?? "", /nested deeper than 64/);
});

test("values nested as deep as allowed pass, and one deeper are refused", () => {
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

  assert.doesNotThrow(() => copyJson(readText(nested(depthMax))));
  assert.equal(problemsOf(() => copyJson(readText(nested(depthMax + 1))))[0]?.type, "syntax");
  assert.equal(problemsOf(() => copyJson(JSON.parse(nested(depthMax + 1))))[0]?.type, "syntax");
  assert.doesNotThrow(() => copyJson(JSON.parse(nested(depthMax))));
});

test("alias bombs, circles and endless repetition are refused", () => {
  const nine = (name: string) => `[${Array(9).fill(name).join(",")}]`;
  const bomb = `a: &a ${nine("x")}\nb: &b ${nine("*a")}\nc: &c ${nine("*b")}\nd: ${nine("*c")}`;
  const many = `a: &a x\nb: [${Array(200).fill("*a").join(",")}]`;
  const shared: unknown[] = [1];
  let doubled: unknown = shared;
  for (let level = 0; level < 40; level++) doubled = [doubled, doubled];
  const circle: { self?: unknown } = {};
  circle.self = circle;

  assert.equal(refusal(bomb)?.type, "syntax");
  assert.match(refusal(many)?.msg ?? "", /more than 100 aliases/);
  assert.match(problemsOf(() => parseManifest("a: &a [*a]"))[0]?.msg ?? "", /nested deeper/);
  assert.match(problemsOf(() => copyJson(doubled))[0]?.msg ?? "", /more than 100000 values/);
  assert.match(problemsOf(() => copyJson(circle))[0]?.msg ?? "", /nested deeper/);
});

test("a manifest is bounded in members, per object and in all, in any notation", () => {
  const object = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]));
  const most = Array.from({ length: 20 }, () => object(1_000));

  assert.doesNotThrow(() => copyJson(most));
  assert.deepEqual(
    problemsOf(() => copyJson({ deep: [object(1_001)] })),
    [{ loc: ["deep", 0], msg: "The value has more than 1000 members.", type: "too_long" }],
  );
  assert.deepEqual(
    problemsOf(() => copyJson([...most, { one: 1 }])),
    [{ loc: [], msg: "The manifest holds more than 20000 members.", type: "too_long" }],
  );
  const yaml = `a:\n${Object.keys(object(1_001))
    .map((key) => `  ${key}: 1\n`)
    .join("")}`;
  for (const text of [JSON.stringify({ a: object(1_001) }), yaml])
    assert.match(problemsOf(() => parseManifest(text))[0]?.msg ?? "", /more than 1000 members/);
});

test("the copy stops at its first 20 problems", () => {
  const problems = problemsOf(() => copyJson(Array(5_000).fill("a\0b")));

  assert.deepEqual([problems.length, problems.at(-1)?.loc], [20, [19]]);
});

test("a text is bounded in bytes and in words", () => {
  const head = "metadata: {name: x}\nspec: {system_prompt: {append_system_md: null}}\n#";
  const fitting = head + "é".repeat((manifestBytesMax - head.length) / 2 - 1);
  const wordy = `[${Array(60_000).fill("1").join(",")}]`;

  assert.doesNotThrow(() => parseManifest(fitting));
  assert.equal(refusal(`${fitting}éé`)?.type, "too_long");
  assert.equal(refusal(wordy)?.type, "too_long");
});

test("a value that JSON cannot express is refused at its position", () => {
  const cases: [unknown, string][] = [
    [Number.NaN, "not a finite number"],
    [Number.POSITIVE_INFINITY, "not a finite number"],
    ["a\0b", "NUL"],
    ["\ud800", "surrogate"],
    [10n, "not JSON"],
    [() => 1, "not JSON"],
    [new Date(0), "not a plain object"],
    [new Map(), "not a plain object"],
  ];

  for (const [value, says] of cases) {
    const [problem] = problemsOf(() => parseManifest(agent({ extensions: { p: value } })));
    assert.deepEqual(problem?.loc, ["spec", "extensions", "p"], says);
    assert.ok(problem?.msg.includes(says), problem?.msg);
  }
  assert.equal(
    problemsOf(() => parseManifest("metadata: {name: x}\nspec: {extensions: {p: .inf}}"))[0]?.type,
    "syntax",
  );
});

test("any text is read or refused, and nothing else happens", () => {
  const pieces = [
    "a: ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "&a ",
    "*a",
    "!t ",
    "? ",
    "|\n",
    "  ",
    "\n",
    "#",
    "x",
    ",",
    "%",
  ];
  const texts = fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string()), { maxLength: 40 })
    .map((all) => all.join(""));

  fc.assert(
    fc.property(texts, (text) => {
      for (const problem of problemsOf(() => parseManifest(text))) assert.ok(problem.msg.length > 0);
    }),
    { numRuns: runs(300) },
  );
});

test("a JSON value survives the copy", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const text = JSON.stringify(value);
      if (text.includes("__proto__") || text.includes("\\u0000") || !JSON.parse(text)) return;
      assert.deepEqual(copyJson(JSON.parse(text)), JSON.parse(text));
    }),
    { numRuns: runs(200) },
  );
});
