// What a value that does not fit its schema is told: one sentence for each place, and what may stand there.
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

test("words of which none was sent are one sentence, also for a value of another type", () => {
  const schema = Type.Object({ decision: words });
  const expected = [{ loc: ["body", "decision"], msg: 'decision must be one of "approved", "denied"', type: "enum" }];

  for (const decision of ["approve", 5, null, {}]) assert.deepEqual(detailOf(schema, { decision }), expected);
  assert.deepEqual(detailOf(schema, { decision: "denied" }), []);
});

test("null is no alternative that is told", () => {
  const schema = Type.Object({
    rating: Type.Union([words, Type.Null()]),
    done: Type.Union([Type.Boolean(), Type.Null()]),
  });

  assert.deepEqual(
    detailOf(schema, { rating: "well", done: 1 }).map(({ msg }) => msg),
    ['rating must be one of "approved", "denied"', "done must be boolean"],
  );
});

test("types and words that may stand in one place are one sentence", () => {
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

test("what stands in a list is called by the list and its place there", () => {
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

test("an unknown field is told with the nearest one and all that its own object has", () => {
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

test("where nothing may stand, nothing is offered", () => {
  assert.deepEqual(
    detailOf(Type.Object({}, closed), { any: 1 }).map(({ msg }) => msg),
    ["any is not a field of this request"],
  );
});

test("what is known of an object is that alone, not what every object has", () => {
  const schema = Type.Object({ kind: Type.String() }, closed);

  assert.deepEqual(
    detailOf(schema, JSON.parse('{"kind":"", "constructor":1}')).map(({ msg }) => msg),
    ["constructor is not a field of this request. There is kind."],
  );
});
