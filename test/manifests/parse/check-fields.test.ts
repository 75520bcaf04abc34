import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorObject } from "ajv";
import fc from "fast-check";
import type { TSchema } from "typebox";
import { createAjv, problemsMax } from "../../../bus/schema-validator.ts";
import { fieldProblems, knownKeywords } from "../../../manifests/parse/check-fields.ts";
import type { ProblemType } from "../../../manifests/problems.ts";
import { manifestSchema } from "../../../manifests/schema/manifest.ts";
import { manifestOf } from "../../fuzz/manifests.ts";
import { runs } from "../../support/effort.ts";
import { agent, nodeOf, nodesOf } from "../support.ts";

/** The problem types of svc for the keywords of Ajv. */
const types: Readonly<Record<string, ProblemType>> = {
  additionalProperties: "extra_forbidden",
  required: "missing",
  type: "type_error",
  enum: "enum",
  maxLength: "too_long",
  maxItems: "too_long",
  maxProperties: "too_long",
  minLength: "too_short",
  minItems: "too_short",
  pattern: "pattern",
  minimum: "out_of_range",
  maximum: "out_of_range",
  exclusiveMinimum: "out_of_range",
};

function ajvFor(schema: TSchema) {
  const ajv = createAjv({ useDefaults: true, strict: true, allowUnionTypes: true, validateSchema: false });
  ajv.addVocabulary(["patternHelp"]);
  const validate = ajv.compile(schema);
  return (value: unknown): string[] => (validate(value) ? [] : (validate.errors ?? []).map(lineOf));
}

function lineOf({ keyword, instancePath, params }: ErrorObject): string {
  const key = params.missingProperty ?? params.additionalProperty;
  const steps = instancePath
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  return [types[keyword], ...steps, ...(key === undefined ? [] : [key])].join(" ");
}

function linesOf(schema: TSchema, value: unknown): string[] {
  return fieldProblems(schema, value).map(({ type, loc }) => [type, ...loc].join(" "));
}

test("the schema is written in the keywords that the walk knows", () => {
  const known = new Set<string>([...knownKeywords.checked, ...knownKeywords.told]);
  const nodes = [...nodesOf(nodeOf(manifestSchema))];

  const strange = nodes.flatMap(({ node, path }) =>
    Object.keys(node)
      .filter((keyword) => !known.has(keyword))
      .map((keyword) => `${path.join(".")}: ${keyword}`),
  );

  assert.deepEqual(strange, []);
  assert.ok(nodes.length > 250, "the walk reaches every field");
});

test("Ajv reports the same problems in the same order, and fills in the same defaults", () => {
  const ask = ajvFor(manifestSchema);
  let refused = 0;
  const numRuns = runs(1000);

  fc.assert(
    fc.property(manifestOf("x"), (source) => {
      const [ours, theirs] = [structuredClone(source), structuredClone(source)];

      const problems = linesOf(manifestSchema, ours);

      assert.deepEqual(problems, ask(theirs));
      assert.equal(JSON.stringify(ours), JSON.stringify(theirs));
      if (problems.length > 0) refused++;
    }),
    { numRuns, seed: 5 },
  );

  const share = refused / numRuns;
  assert.ok(share > 0.3 && share < 0.9, `${refused} of ${numRuns} refused`);
});

test("a value of every JSON type, at every field, is refused as by Ajv", () => {
  const ask = ajvFor(manifestSchema);
  const values = [null, true, 0, 1.5, -1, 1e12, "", "a\u{1F600}", [], [1, "a"], {}, { key: 1 }];
  const spec = nodeOf(manifestSchema).properties?.spec;

  for (const [name, field] of Object.entries(spec?.properties ?? {})) {
    for (const value of values) {
      const sources = [agent({ [name]: value }), agent({ [name]: [value] })];
      for (const key of Object.keys(field.properties ?? {})) sources.push(agent({ [name]: { [key]: value } }));
      for (const key of Object.keys(field.items?.properties ?? {})) sources.push(agent({ [name]: [{ [key]: value }] }));
      for (const source of sources)
        assert.deepEqual(
          linesOf(manifestSchema, structuredClone(source)),
          ask(structuredClone(source)),
          JSON.stringify(source),
        );
    }
  }
});

test("lists, maps and objects are checked up to the bound of reported problems", () => {
  const many = Array.from({ length: 100_000 }, () => 5);
  const entries = Object.fromEntries(many.map((value, at) => [`key_${at}`, value]));

  // One more for its length.
  assert.equal(linesOf(manifestSchema, agent({ tools: many })).length, 1 + problemsMax);
  assert.equal(linesOf(manifestSchema, agent({ tool_guidance: entries })).length, 1 + problemsMax);
  assert.equal(linesOf(manifestSchema, agent(entries)).length, problemsMax);
});

test("every list and every map of a manifest has a bound", () => {
  const all = [...nodesOf(nodeOf(manifestSchema))];

  const unbound = all.filter(
    ({ node: { items, maxItems, additionalProperties, maxProperties } }) =>
      (items !== undefined && maxItems === undefined) ||
      (typeof additionalProperties === "object" && maxProperties === undefined),
  );

  assert.deepEqual(
    unbound.map(({ path }) => path.join(".")),
    [],
  );
});

test("a refusal names the one allowed word, or asks for one entry of an empty list", () => {
  const source = {
    apiVersion: "v2",
    metadata: { name: "x" },
    spec: { policies: [{ id: "p", required_scopes: [], tools: ["*"] }] },
  };

  assert.deepEqual(
    fieldProblems(manifestSchema, source).map(({ msg }) => msg),
    ["apiVersion must be svc/v1.", "spec.policies[0].required_scopes must have at least one entry."],
  );
});

test("a refusal names the right level of a misplaced field, and asks to remove quotes", () => {
  const said = (source: object) => fieldProblems(manifestSchema, structuredClone(source)).map(({ msg }) => msg);

  assert.deepEqual(said({ metadata: { name: "x" }, tools: [], modle: {}, name: "x" }), [
    "tools is not a field of the manifest (did you mean spec.tools?).",
    "modle is not a field of the manifest (there are apiVersion, kind, metadata, spec).",
    "name is not a field of the manifest (did you mean metadata.name?).",
  ]);
  assert.deepEqual(said(agent({ "and short": "ok" })), [
    "and short is not a field of spec; a text with a comma or a colon in it needs quotes.",
  ]);
  assert.deepEqual(said(agent({ temperature: 1, enabled: true, constructor: 1, tool: [] })), [
    "temperature is not a field of spec (did you mean spec.model.temperature?).",
    // Many objects have a field of this name.
    "enabled is not a field of spec.",
    "constructor is not a field of spec.",
    "tool is not a field of spec (did you mean tools?).",
  ]);
  assert.deepEqual(said(agent({ max_turns: "3", model: { temperature: "0.5", cache: "true", max_tokens: "many" } })), [
    "spec.max_turns must be a whole number; take it out of the quotes.",
    "spec.model.temperature must be a number; take it out of the quotes.",
    "spec.model.max_tokens must be a whole number or null.",
    "spec.model.cache must be true or false; take it out of the quotes.",
  ]);
});
