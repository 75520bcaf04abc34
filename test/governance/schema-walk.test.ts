import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv } from "ajv";
import fc from "fast-check";
import { checkAnswer } from "../../governance/answer-problem.ts";
import { argumentsProblem } from "../../governance/arguments-problem.ts";
import { compiledCount, compiledSchema } from "../../governance/compiled-schema.ts";
import { schemaMisfit } from "../../governance/schema-walk.ts";
import { type AnswerSchema, readAnswerSchema } from "../../manifests/answer-schema.ts";
import { argumentsSchemaFault } from "../../manifests/fields/arguments-schema.ts";

const env = { defer: setImmediate };

/** Counts how often a check yields to other work. */
function counting() {
  return {
    pauses: 0,
    defer(work: () => void): void {
      this.pauses++;
      setImmediate(work);
    },
  };
}

async function misfitOf(schema: object, value: unknown) {
  const { root } = compiledSchema(schema);
  assert.ok(root !== null, "it can be walked");
  return schemaMisfit(root, value, env);
}

function answerSchema(schema: Readonly<Record<string, unknown>>): AnswerSchema {
  const read = readAnswerSchema(schema, (at, says) => assert.fail(`${at.join(".")} ${says}`));
  assert.ok(read);
  return read;
}

const named = fc.constantFrom("a", "b c", "constructor", "__proto__");
// Read from JSON, as all values are: others have no prototype, which matters to Ajv.
const value = fc
  .oneof(fc.jsonValue({ maxDepth: 2 }), fc.dictionary(named, fc.jsonValue({ maxDepth: 1 })))
  .map((tried) => JSON.parse(JSON.stringify(tried)) as unknown);
const count = fc.integer({ min: 0, max: 3 });
const { schema: anySchema } = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 2 },
    fc.boolean(),
    fc.record(
      {
        ...{ type: fc.constantFrom("string", "object", "integer", ["array", "null"], "number", "boolean") },
        ...{ properties: fc.dictionary(named, tie("schema")), required: fc.uniqueArray(named, { maxLength: 2 }) },
        ...{ additionalProperties: tie("schema"), items: tie("schema"), not: tie("schema") },
        ...{ enum: fc.array(value, { minLength: 1, maxLength: 3 }), const: value },
        ...{ minimum: fc.integer(), exclusiveMaximum: fc.integer(), multipleOf: fc.constantFrom(0.5, 2) },
        ...{ maxLength: count, minLength: count, maxItems: count, minItems: count },
        ...{ maxProperties: count, minProperties: count },
        ...{ anyOf: parts(tie("schema")), oneOf: parts(tie("schema")), allOf: parts(tie("schema")) },
        ...{ $ref: fc.constantFrom("#/$defs/x", "#/$defs/y"), format: fc.string(), default: value },
      },
      { requiredKeys: [] },
    ),
  ),
}));

function parts(schema: fc.Arbitrary<unknown>) {
  return fc.array(schema, { minLength: 1, maxLength: 3 });
}

test("a value fits a schema exactly as in Ajv, and a keyword's error has Ajv's text", async () => {
  const ajv = new Ajv({ strict: false, validateFormats: false, validateSchema: false, ownProperties: true });
  let fits = 0;
  let misfits = 0;
  await fc.assert(
    fc.asyncProperty(anySchema, anySchema, anySchema, value, async (part, x, y, tried) => {
      const whole = { type: "object", properties: { in: part }, $defs: { x, y } };
      fc.pre(argumentsSchemaFault(whole) === null);
      const validate = ajv.compile(whole);
      ajv.removeSchema(whole);

      const found = await misfitOf(whole, { in: tried });

      assert.equal(found === null, validate({ in: tried }), JSON.stringify(found));
      found === null ? fits++ : misfits++;
      const isSingle = typeof part === "object" && part !== null && Object.keys(part).length === 1;
      if (found === null || !isSingle || Object.hasOwn(part, "oneOf")) return;
      const [error] = validate.errors ?? [];
      assert.deepEqual([`/${found.path.join("/")}`, found.message], [error?.instancePath, error?.message]);
    }),
    { numRuns: 150 },
  );
  assert.ok(fits > 20 && misfits > 20, `${fits} fit, ${misfits} do not`);
});

test("exactly one alternative of oneOf fits, and any of anyOf", async () => {
  const parts = [{ type: "integer" }, { minimum: 5 }, { const: "a" }];

  const found = await Promise.all(
    [1, 7, 5.5, "a", true, 0.5].map(async (tried) => [
      (await misfitOf({ oneOf: parts }, tried))?.message ?? null,
      (await misfitOf({ anyOf: parts }, tried))?.message ?? null,
    ]),
  );

  const two = "must match exactly one schema in oneOf";
  assert.deepEqual(found, [
    [null, null],
    [two, null],
    [null, null],
    [two, null],
    [null, null],
    ["must be integer", "must be integer"],
  ]);
});

test("characters are code points, and lengths are counted only as far as needed", async () => {
  const text = { type: "string", minLength: 2, maxLength: 3 };

  const found = await Promise.all(["a", "💡", "💡💡", "💡💡💡", "💡💡💡💡"].map((each) => misfitOf(text, each)));

  assert.deepEqual(
    found.map((each) => each?.keyword ?? null),
    ["minLength", "minLength", null, null, "maxLength"],
  );
});

const longList = (last: number) => [...Array(60_000).fill(0), last];
const members = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`m${at}`, 0]));
const fitsAtLast = (...misfits: unknown[]) => ({ anyOf: [...misfits, true] });
const doubling = {
  d0: { const: -1 },
  ...Object.fromEntries(
    Array.from({ length: 7 }, (_, at) => [`d${at + 1}`, { anyOf: Array(2).fill({ $ref: `#/$defs/d${at}` }) }]),
  ),
};

/** The schema of a list's items, and the list. */
const expensive: readonly [name: string, items: object, list: readonly unknown[]][] = [
  ["alternatives", fitsAtLast(...Array(490).fill({ const: 1 })), Array(50_000).fill(0)],
  ["references that double", fitsAtLast({ $ref: "#/$defs/d7" }), Array(20_000).fill(0)],
  ["long values in an enum", fitsAtLast({ enum: [longList(1), longList(2)] }), Array(20).fill(longList(3))],
  ["counts of members", { allOf: Array(400).fill({ minProperties: 900 }) }, Array(20).fill(members)],
  ["required names", { required: Object.keys(members) }, Array(2_000).fill(members)],
  ["named properties", { properties: members, additionalProperties: false }, Array(2_000).fill({})],
  ["unnamed properties", { allOf: Array(400).fill({ additionalProperties: true }) }, Array(20).fill(members)],
  ["characters", { allOf: Array(400).fill({ minLength: 600_000 }) }, ["x".repeat(700_000)]],
];

for (const [name, items, list] of expensive)
  test(`a check that takes too many steps ends as a misfit, and yields: ${name}`, async () => {
    const parameters = { type: "object", properties: { list: { items } }, $defs: doubling };
    const pauses = counting();

    const problem = await argumentsProblem({ parameters }, { list }, pauses);

    assert.equal(problem, "the value takes more than 1000000 steps to check");
    assert.ok(pauses.pauses >= 5, String(pauses.pauses));
  });

test("an answer that takes too many steps does not fit its schema", async () => {
  const items = fitsAtLast(...Array(490).fill({ const: 1 }));
  const schema = answerSchema({ type: "object", properties: { list: { items } } });
  const pauses = counting();

  const long = await checkAnswer(schema, JSON.stringify({ list: Array(8_000).fill(0) }), pauses);
  const paused = pauses.pauses;
  const short = await checkAnswer(schema, JSON.stringify({ list: Array(10).fill(0) }), pauses);

  assert.deepEqual(long, { ok: false, problem: "the answer takes more than 1000000 steps to check" });
  assert.ok(paused >= 40, String(paused));
  assert.ok(short.ok);
  assert.equal(pauses.pauses, paused);
});

test("an answer schema is refused when its references nest deeper than 128", async () => {
  const chain = (length: number, properties: object = {}) => ({
    ...{ type: "object", additionalProperties: { $ref: "#/$defs/0" }, properties },
    $defs: Object.fromEntries(
      Array.from({ length }, (_, at) => [at, at === length - 1 ? { type: "null" } : { $ref: `#/$defs/${at + 1}` }]),
    ),
  });
  const refusalsOf = (schema: Readonly<Record<string, unknown>>) => {
    const refusals: string[] = [];
    readAnswerSchema(schema, (_, says) => refusals.push(says));
    return refusals;
  };
  const tooDeep = ["is nested deeper than 128 with its references in place"];

  const fitting = answerSchema(chain(126));

  assert.equal((await checkAnswer(fitting, '{"a":null}', env)).ok, true);
  assert.equal((await checkAnswer(fitting, '{"a":1}', env)).ok, false);
  assert.deepEqual(refusalsOf(chain(127)), tooDeep);
  assert.deepEqual(refusalsOf(chain(1_900)), tooDeep);
  // The end of the chain is known before its beginning is read.
  const known = { a: { $ref: "#/$defs/100" } };
  const { additionalProperties, ...rest } = chain(127, known);
  assert.deepEqual(refusalsOf({ ...rest, additionalProperties }), tooDeep);
  assert.deepEqual(refusalsOf(chain(126, known)), []);
});

test("equal schemas are compiled once, and the 256 most recently used are kept", () => {
  const schema = (at: number) => ({ type: "object", description: `schema ${at}` });

  const [first, second] = [compiledSchema(schema(1)), compiledSchema(schema(2))];
  for (let at = 3; at <= 256; at++) compiledSchema(schema(at));
  assert.equal(compiledSchema(schema(1)), first);
  compiledSchema(schema(257));

  assert.equal(compiledCount(), 256);
  assert.equal(compiledSchema(schema(1)), first);
  assert.notEqual(compiledSchema(schema(2)), second);
});

test("few large schemas are kept", () => {
  for (let at = 0; at < 10; at++) compiledSchema({ type: "object", description: `${at}`.repeat(4_000_000) });

  assert.ok(compiledCount() <= 4, String(compiledCount()));
});

test("a plugin's schema with other keywords is validated by Ajv", async () => {
  const parameters = { type: "object", properties: { a: { uniqueItems: true }, b: { pattern: "^x" } } };

  const problems = await Promise.all(
    [{ a: [1, 2], b: "x" }, { a: [1, 1] }, { b: "y" }].map((args) => argumentsProblem({ parameters }, args, env)),
  );

  assert.deepEqual(problems, [
    null,
    "a must NOT have duplicate items (items ## 0 and 1 are identical)",
    'b must match pattern "^x"',
  ]);
});
