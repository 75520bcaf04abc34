import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { checkArguments, loggedArguments } from "../../../actors/tools/arguments.ts";
import { todoWrite } from "../../../actors/tools/plans/todo-write.ts";
import type { Tool } from "../../../actors/tools/tool.ts";
import { listDir } from "../../../actors/tools/workspace/list-dir.ts";
import { multiEdit } from "../../../actors/tools/workspace/multi-edit.ts";
import { readFile } from "../../../actors/tools/workspace/read-file.ts";
import { writeFile } from "../../../actors/tools/workspace/write-file.ts";
import { parseStrictJson } from "../../../bus/strict-json.ts";
import { runs } from "../../support/effort.ts";

const env = { defer: setImmediate };

async function refusalOf(tool: Tool, text: string): Promise<string> {
  const checked = await checkArguments(tool, text, env);
  assert.ok(!checked.ok, "refused");
  assert.equal(checked.refusal.error, "invalid_arguments");
  return checked.refusal.text;
}

test("valid arguments are passed unchanged", async () => {
  assert.deepEqual(await checkArguments(readFile, ' {"path":"a","offset":2}\n', env), {
    ok: true,
    args: { path: "a", offset: 2 },
  });
  assert.deepEqual(await checkArguments(listDir, "", env), { ok: true, args: {} });
});

const refused: [string, Tool, string, RegExp][] = [
  ["no JSON", readFile, "path: a", /does not parse/],
  ["half of an object", readFile, '{"path":"a"', /does not parse/],
  ["two values", readFile, '{"path":"a"}{}', /does not parse/],
  ["an open text", readFile, '{"path":"a', /does not parse/],
  ["a bad escape", readFile, '{"path":"\\x"}', /does not parse/],
  ["a comma at the end", readFile, '{"path":"a",}', /does not parse/],
  ["a list", readFile, '["a"]', /not an object/],
  ["null", readFile, "null", /not an object/],
  ["a text", readFile, '"{}"', /not an object/],
  ["a key that is there twice", readFile, '{"path":"a","path":"b"}', /"path" twice/],
  ["a key that is there twice in another spelling", readFile, '{"path":"a","p\\u0061th":"b"}', /"path" twice/],
  [
    "a key that is there twice deep down",
    multiEdit,
    '{"path":"a","edits":[{"old_string":"a","old_string":"b"}]}',
    /twice/,
  ],
  ["__proto__", readFile, '{"path":"a","__proto__":{}}', /__proto__/],
  ["__proto__ in another spelling", readFile, '{"path":"a","\\u005f_proto__":{}}', /__proto__/],
  ["constructor", readFile, '{"path":"a","constructor":1}', /constructor/],
  ["prototype deep down", todoWrite, '{"todos":[{"content":"a","prototype":1}]}', /prototype/],
  ["65 levels", readFile, `{"path":${"[".repeat(64)}${"]".repeat(64)}}`, /deeper than 64/],
  ["a million levels", readFile, "[".repeat(1_000_000), /deeper than 64/],
  [
    "an integer that is not exact",
    readFile,
    '{"path":"a","offset":9007199254740993}',
    /9007199254740993, which is out of range/,
  ],
  ["a number that is not finite", readFile, '{"path":"a","offset":1e999}', /out of range/],
  ["NUL", writeFile, '{"path":"a","content":"x\\u0000y"}', /NUL/],
  ["half of a surrogate pair", writeFile, '{"path":"a","content":"\\ud800"}', /surrogate/],
  ["too much text", writeFile, `{"path":"a","content":"${"x".repeat(2_000_000)}"}`, /longer than 2000000/],
  ["a missing argument", readFile, "{}", /^path is missing/],
  [
    "a missing argument deep down",
    multiEdit,
    '{"path":"a","edits":[{"old_string":"a"}]}',
    /^edits\.0\.new_string is missing/,
  ],
  ["an unknown argument", readFile, '{"path":"a","encoding":"x"}', /^encoding is not an argument/],
  ["an unknown argument deep down", todoWrite, '{"todos":[{"content":"a","x":1}]}', /^todos\.0\.x is not an argument/],
  ["another type", readFile, '{"path":1}', /^path must be string/],
  ["a number as text", readFile, '{"path":"a","offset":"1"}', /^offset must be integer/],
  ["a fraction for an integer", readFile, '{"path":"a","offset":1.5}', /^offset must be integer/],
  ["a value out of range", readFile, '{"path":"a","limit":0}', /^limit must be >= 1/],
  [
    "a value of no list",
    todoWrite,
    '{"todos":[{"content":"a","status":"done"}]}',
    /^todos\.0\.status must be one of pending/,
  ],
  ["a text that is too long", readFile, `{"path":"${"x".repeat(4097)}"}`, /^path must NOT have more than 4096/],
];
for (const [name, tool, text, reason] of refused) {
  test(`arguments are refused for ${name}`, async () => {
    assert.match(await refusalOf(tool, text), reason);
  });
}

test("the log has valid arguments parsed, and others as their text", () => {
  const taken: [string, unknown][] = [
    ['{"a":[1]}', { a: [1] }],
    [" ", {}],
    ["[]", []],
  ];
  const texts = ["{broken", '{"a":1,"a":2}', '{"__proto__":1}', `${"[".repeat(65)}${"]".repeat(65)}`, '"\\u0000"'];

  assert.deepEqual(
    loggedArguments(taken.map(([text]) => text)),
    taken.map(([, value]) => value),
  );
  assert.deepEqual(loggedArguments(texts), texts);
});

test("all calls of an answer share the parse bound of one", () => {
  const half = `{"content":"${"x".repeat(999_986)}"}`;

  const [first, second, third] = loggedArguments([half, half, "{}"]);

  assert.deepEqual([half.length, typeof first, typeof second, third], [1_000_000, "object", "object", "{}"]);
});

test("64 levels are accepted", () => {
  assert.doesNotThrow(() => parseStrictJson(`${"[".repeat(64)}${"]".repeat(64)}`));
});

test("strict JSON reads every JSON value as JSON.parse does", () => {
  const names = ["__proto__", "constructor", "prototype"];
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 1, "\t"), (value, space) => {
      const text = JSON.stringify(value, null, space);
      fc.pre(!names.some((name) => text.includes(name)) && !text.includes("\\u0000"));
      fc.pre(!/(?:^|[^.\deE+-])-?\d{16,}(?![.\deE])/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, '""')));
      assert.deepEqual(parseStrictJson(text), JSON.parse(text));
    }),
    { numRuns: runs(1000) },
  );
});

test("no text makes the check throw, and JSON.parse accepts all it accepts", async () => {
  const piece = fc.constantFrom(
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "path",
    '"path"',
    "1",
    "-",
    "e9",
    "null",
    " ",
    "\\u0061",
    "\ud800",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 20 }).map((parts) => parts.join("")),
      async (text) => {
        const checked = await checkArguments(readFile, text, env);
        if (checked.ok) assert.deepEqual(checked.args, JSON.parse(text));
      },
    ),
    { numRuns: runs(5000) },
  );
});
