// Validation errors: one sentence for each invalid location, with the allowed values.
import assert from "node:assert/strict";
import { test } from "node:test";
import Type, { type TSchema } from "typebox";
import { SvcError } from "../../bus/errors.ts";
import { validate } from "../../http/validate.ts";

const closed = { additionalProperties: false };
const words = Type.Union([Type.Literal("approved"), Type.Literal("denied")]);

function detailOf(schema: TSchema, value: unknown): { loc: unknown; msg: string; type: string }[] {
  try {
    validate(schema, value, "body");
  } catch (error) {
    assert.ok(error instanceof SvcError);
    return error.details.detail as ReturnType<typeof detailOf>;
  }
  return [];
}

test("a value that is none of the literals gives one sentence, whatever its type", () => {
  const schema = Type.Object({ decision: words });
  const expected = [{ loc: ["body", "decision"], msg: 'decision must be one of "approved", "denied"', type: "enum" }];

  for (const decision of ["approve", 5, null, {}]) assert.deepEqual(detailOf(schema, { decision }), expected);
  assert.deepEqual(detailOf(schema, { decision: "denied" }), []);
});

test("null is not named as an alternative", () => {
  const schema = Type.Object({
    rating: Type.Union([words, Type.Null()]),
    done: Type.Union([Type.Boolean(), Type.Null()]),
  });

  assert.deepEqual(
    detailOf(schema, { rating: "well", done: 1 }).map(({ msg }) => msg),
    ['rating must be one of "approved", "denied"', "done must be boolean"],
  );
});

test("types and literals allowed in one location are one sentence", () => {
  const open = Type.Object({}, { additionalProperties: true });
  const schema = Type.Object({
    content: Type.Union([Type.String(), open, Type.Array(Type.Unknown())]),
    choice: Type.Union([Type.Literal("auto"), Type.Literal("none"), open]),
    one: Type.Literal("only"),
  });

  assert.deepEqual(
    detailOf(schema, { content: 5, choice: "always", one: 1 }).map(({ msg, type }) => [msg, type]),
    [
      ["content must be string, object or array", "type"],
      ['choice must be one of "auto", "none" or object', "enum"],
      ['one must be "only"', "const"],
    ],
  );
});

test("an item is named by its list and its index", () => {
  const schema = Type.Object({ args: Type.Array(Type.String()), rows: Type.Array(Type.Object({ n: Type.Integer() })) });

  assert.deepEqual(
    detailOf(schema, { args: ["a", 1], rows: [5, { n: "x" }] }).map(({ msg }) => msg),
    ["args.1 must be string", "rows.0 must be object", "n must be integer"],
  );
  assert.equal(detailOf(Type.Array(Type.Integer()), [true])[0]?.msg, "0 must be integer");
});

test("problems of different places stay apart and in their order", () => {
  const schema = Type.Object({ list: Type.Array(words), name: Type.String({ minLength: 2 }) }, closed);

  assert.deepEqual(
    detailOf(schema, { list: ["a", "denied", "b"], name: "x" }).map(({ loc }) => loc),
    [
      ["body", "list", 0],
      ["body", "list", 2],
      ["body", "name"],
    ],
  );
});

test("an unknown field is reported with the nearest one and its object's fields", () => {
  const schema = Type.Object(
    { manifest: Type.String(), options: Type.Object({ depth: Type.Integer() }, closed) },
    closed,
  );

  assert.deepEqual(detailOf(schema, { manifst: "", manifest: "", options: { deep: 1, depth: 1, zebra: 2 } }), [
    {
      loc: ["body", "manifst"],
      msg: "manifst is not a field of this request. Did you mean manifest? There are manifest, options.",
      type: "extra_forbidden",
    },
    {
      loc: ["body", "options", "deep"],
      msg: "deep is not a field of options. There is depth.",
      type: "extra_forbidden",
    },
    {
      loc: ["body", "options", "zebra"],
      msg: "zebra is not a field of options. There is depth.",
      type: "extra_forbidden",
    },
  ]);
});

test("an unknown field of an empty object is reported without suggestions", () => {
  assert.deepEqual(
    detailOf(Type.Object({}, closed), { any: 1 }).map(({ msg }) => msg),
    ["any is not a field of this request"],
  );
});

test("names that every object inherits are not known fields", () => {
  const schema = Type.Object({ kind: Type.String() }, closed);

  assert.deepEqual(
    detailOf(schema, JSON.parse('{"kind":"", "constructor":1}')).map(({ msg }) => msg),
    ["constructor is not a field of this request. There is kind."],
  );
});
