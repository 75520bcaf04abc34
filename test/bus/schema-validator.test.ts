import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv, type Options } from "ajv";
import fc from "fast-check";
import { createAjv, problemsMax } from "../../bus/schema-validator.ts";
import { runs } from "../support/effort.ts";

const options: Options = { strict: false, ownProperties: true, meta: false, validateSchema: false };
const plainAjv = new Ajv({ ...options, allErrors: true });
const ajv = createAjv(options);
const errorsOf = (schema: object, value: unknown) => {
  const check = ajv.compile(schema);
  return check(value) ? [] : (check.errors ?? []);
};
const closed = { type: "object", properties: { a: { type: "string" } }, additionalProperties: false };
const crowd = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, value]));

test("a list of mistakes is left after its 20th (decision 74: bounds of JSON)", () => {
  const errors = errorsOf({ type: "array", items: { type: "string" } }, Array(10_000).fill(1));

  assert.deepEqual(
    errors.map(({ instancePath }) => instancePath),
    Array.from({ length: 20 }, (_, at) => `/${at}`),
  );
});

test("an object of mistakes is left after its 20th, in keys or in values", () => {
  const values = { type: "object", additionalProperties: { type: "string" } };

  assert.equal(errorsOf(closed, crowd(1_000, 1)).length, 20);
  assert.equal(errorsOf(values, crowd(1_000, 1)).length, 20);
});

test("nested lists report the innermost mistakes and their siblings only", () => {
  const inner = { type: "array", items: { type: "string" } };
  const rows = Array(100).fill(Array(100).fill(1));

  assert.equal(errorsOf({ type: "array", items: inner }, rows).length, 20);
});

test("a list of fewer mistakes is checked to its end", () => {
  const list = Array(5_000).fill("fine");
  for (const at of [0, 2_000, 4_999]) list[at] = 1;

  const errors = errorsOf({ type: "array", items: { type: "string" } }, list);

  assert.deepEqual(
    errors.map(({ instancePath }) => instancePath),
    ["/0", "/2000", "/4999"],
  );
});

test("mistakes of an alternative that does not fit do not hide those of another", () => {
  const schema = {
    type: "array",
    items: {
      anyOf: [
        { type: "array", items: { type: "string" } },
        { type: "array", items: { type: "number" } },
      ],
    },
  };
  const numbers = Array(50).fill(1);

  assert.deepEqual(errorsOf(schema, [numbers, numbers, numbers]), []);
  assert.notDeepEqual(errorsOf(schema, [numbers, [...numbers, "x"]]), []);
});

test("defaults are filled in, and a nullable value may be null", () => {
  const check = createAjv({ ...options, useDefaults: true }).compile({
    type: "object",
    properties: { list: { type: "array", items: closed, default: [] }, model: { type: ["string", "null"] } },
    additionalProperties: false,
  });
  const value = { model: null };

  assert.ok(check(value));
  assert.deepEqual(value, { model: null, list: [] });
});

const leaf = fc.constantFrom<object>({ type: "string" }, { type: "number" }, { type: "null" }, {});
const { schema } = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    tie("schema").map((items) => ({ type: "array", items })),
    fc.tuple(tie("schema"), tie("schema")).map((anyOf) => ({ anyOf })),
    fc.record({
      type: fc.constant("object"),
      properties: fc.record({ a: tie("schema"), b: tie("schema") }, { requiredKeys: [] }),
      additionalProperties: fc.oneof(fc.boolean(), tie("schema")),
    }),
  ),
}));
const long = fc
  .tuple(fc.jsonValue({ maxDepth: 2 }), fc.jsonValue({ maxDepth: 2 }), fc.nat(40))
  .map(([one, other, count]) => [...Array(count).fill(one), other]);

test("a value is valid exactly when Ajv says so, and few problems are all reported", () => {
  fc.assert(
    fc.property(schema, fc.oneof(long, fc.dictionary(fc.constantFrom("a", "b", "c"), long)), (shape, value) => {
      const plain = plainAjv.compile(shape);
      const expected = plain(value) ? [] : (plain.errors ?? []);

      const errors = errorsOf(shape, value);

      assert.equal(errors.length > 0, expected.length > 0);
      if (expected.length < problemsMax) assert.deepEqual(errors, expected);
    }),
    { numRuns: runs(400) },
  );
});
