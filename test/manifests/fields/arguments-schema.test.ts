import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv } from "ajv";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { argumentsProblem } from "../../../governance/arguments-problem.ts";
import { argumentsSchemaFault } from "../../../manifests/fields/arguments-schema.ts";

const object = (fields: object) => ({ type: "object", ...fields });
const faultOf = (schema: object) => {
  const fault = argumentsSchemaFault(schema as Record<string, unknown>);
  return fault && `${fault.path.join(".")} ${fault.says}`;
};

test("a supported schema has no fault, and arguments are validated against it", async () => {
  const schema = object({
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Where",
    properties: {
      when: { type: "string", format: "date-time", description: "Not checked.", default: "now" },
      many: { type: "array", items: { $ref: "#/$defs/one" }, minItems: 1, maxItems: 3 },
      kind: { enum: ["a", "b", 3, null] },
      size: { type: ["integer", "null"], minimum: 0, exclusiveMaximum: 10, multipleOf: 2 },
      either: { oneOf: [{ type: "string" }, { type: "number" }], not: { const: "no" } },
      // A name like any other.
      pattern: { type: "boolean" },
      any: true,
    },
    required: [],
    additionalProperties: false,
    minProperties: 1,
    $defs: { one: { type: "string", minLength: 1, maxLength: 5, title: "One" } },
  });

  assert.equal(faultOf(schema), null);
  for (const [args, problem] of [
    [{ when: "whenever", many: ["a"], kind: null, size: 4, either: 1, any: { x: 1 } }, null],
    [{ many: ["abcdef"] }, "many.0 must NOT have more than 5 characters"],
    [{ kind: "c" }, "kind must be one of a, b, 3, "],
    [{ size: 3 }, "size must be multiple of 2"],
    [{ either: "no" }, "either must NOT be valid"],
    [{ pattern: "x" }, "pattern must be boolean"],
    [{}, "the value must NOT have fewer than 1 properties"],
    [{ other: 1 }, "other is not an argument of this tool"],
  ] as const)
    assert.equal(await argumentsProblem({ parameters: schema }, args, { defer: setImmediate }), problem);
});

test("an unsupported keyword is refused by name, and so is an invalid schema", () => {
  const doubling = Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [
      `d${at}`,
      at === 29 ? {} : { anyOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
    ]),
  );
  for (const [schema, fault] of [
    [{}, "type must be object"],
    [{ type: "array" }, "type must be object"],
    [{ type: ["object"] }, "type must be object"],
    [object({ pattern: "(a+)+$" }), "pattern is not a supported keyword"],
    [object({ properties: { a: { pattern: "x" } } }), "properties.a.pattern is not a supported keyword"],
    [object({ patternProperties: {} }), "patternProperties is not a supported keyword"],
    [object({ uniqueItems: true }), "uniqueItems is not a supported keyword"],
    [object({ $id: "http://x" }), "$id is not a supported keyword"],
    [object({ properties: [] }), "properties is not an object of schemas"],
    [object({ properties: { a: 1 } }), "properties.a is not a schema"],
    [object({ properties: { a: { items: [{}] } } }), "properties.a.items is not a schema"],
    [object({ properties: { a: { $defs: {} } } }), "properties.a.$defs is only allowed at the top"],
    [object({ required: ["a", "a"] }), "required is not a list of different names"],
    [object({ required: "a" }), "required is not a list of different names"],
    [object({ minProperties: -1 }), "minProperties is not a whole number from 0"],
    [object({ properties: { a: { multipleOf: 0 } } }), "properties.a.multipleOf is not a number above 0"],
    [object({ properties: { a: { minimum: "0" } } }), "properties.a.minimum is not a number"],
    [object({ properties: { a: { type: "text" } } }), "properties.a.type is not a type, or a list of types"],
    [object({ properties: { a: { type: [] } } }), "properties.a.type is not a type, or a list of types"],
    [object({ anyOf: [] }), "anyOf is not a list of schemas"],
    [object({ anyOf: [7] }), "anyOf.0 is not a schema"],
    [object({ properties: { a: { enum: [] } } }), "properties.a.enum is not a list of values"],
    [object({ $ref: "https://example.com/x" }), "$ref names no entry of $defs or definitions"],
    [object({ $ref: "#/$defs/a" }), "$ref names no entry of $defs or definitions"],
    [object({ $ref: "#/$defs/toString", $defs: {} }), "$ref names no entry of $defs or definitions"],
    [
      object({ $defs: { a: { properties: { a: { $ref: "#/$defs/a" } } } } }),
      "$defs.a.properties.a makes more than 500 parts of the schema",
    ],
    [
      object({ properties: { a: { enum: Array(500).fill(1) } } }),
      "properties.a.enum makes more than 500 parts of the schema",
    ],
  ] as const)
    assert.equal(faultOf(schema), fault, JSON.stringify(schema).slice(0, 100));
  assert.match(String(faultOf(object({ $defs: doubling }))), /makes more than 500 parts/);
});

test("the built-in tools' own schemas are strict", () => {
  for (const { parameters } of builtInTools) new Ajv({ strict: true }).compile(parameters);
});
