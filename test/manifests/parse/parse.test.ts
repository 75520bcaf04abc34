import assert from "node:assert/strict";
import { test } from "node:test";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { problemTypes } from "../../../manifests/problems.ts";
import { manifestSchema } from "../../../manifests/schema/manifest.ts";
import {
  agent,
  fullManifest,
  nodeOf,
  nodesOf,
  parseProblems,
  problemsOf,
  types,
  without,
  withValue,
} from "../support.ts";

test("a wrong JSON type is refused at every field of the schema", () => {
  const full = fullManifest(manifestSchema);
  const fields = [...nodesOf(nodeOf(manifestSchema))].filter(({ path, node }) => path.length > 0 && node.type);

  for (const { node, path } of fields) {
    const known = types(node);
    const wrong = known.includes("string") ? (known.includes("object") ? 5 : { not: "text" }) : "not it";
    const problems = parseProblems(withValue(full, path, wrong));

    assert.ok(problems.includes(`type_error ${path.join(".")}`), `${path.join(".")}: ${problems}`);
  }
  assert.ok(fields.length > 250, "the walk reaches every field");
});

test("every enumeration accepts its words and refuses others, at every field", () => {
  const full = fullManifest(manifestSchema);
  const fields = [...nodesOf(nodeOf(manifestSchema))].filter(({ node }) => node.enum);

  for (const { node, path } of fields) {
    const at = path.join(".");
    for (const word of node.enum ?? [])
      assert.ok(!parseProblems(withValue(full, path, word)).includes(`enum ${at}`), `${at} takes ${word}`);
    assert.ok(parseProblems(withValue(full, path, "nothing of this")).includes(`enum ${at}`), at);
  }
  assert.ok(fields.length > 25, "the walk reaches the enumerations");
});

test("a field without default that is left out is refused as missing, at every level", () => {
  const full = fullManifest(manifestSchema);
  let seen = 0;

  for (const { node, path } of nodesOf(nodeOf(manifestSchema))) {
    for (const key of node.required ?? []) {
      if (node.properties?.[key]?.default !== undefined) continue;
      seen++;

      const problems = parseProblems(without(full, [...path, key]));

      assert.ok(problems.includes(`missing ${[...path, key].join(".")}`), `${[...path, key].join(".")}: ${problems}`);
    }
  }
  assert.ok(seen > 20, "the walk reaches the required fields");
});

test("all problems, at most twenty, are reported with a path and a sentence", () => {
  const wrong = agent({ tool: [], model: { temperature: "hot" }, limits: { max_tool_calls: 501 } }, { version: 1 });
  const many = agent(Object.fromEntries(Array.from({ length: 80 }, (_, at) => [`unknown_${at}`, 1])));

  const problems = problemsOf(() => parseManifest(wrong));

  assert.deepEqual(problems, [
    { loc: ["metadata", "version"], msg: "metadata.version must be text; put it in quotes.", type: "type_error" },
    { loc: ["spec", "tool"], msg: "tool is not a field of spec (did you mean tools?).", type: "extra_forbidden" },
    { loc: ["spec", "model", "temperature"], msg: "spec.model.temperature must be a number.", type: "type_error" },
    {
      loc: ["spec", "limits", "max_tool_calls"],
      msg: "spec.limits.max_tool_calls must be at most 500.",
      type: "out_of_range",
    },
  ]);
  assert.equal(parseProblems(many).length, 20);
});

test("a path distinguishes list indexes from keys that look like them", () => {
  const source = agent({ tool_guidance: { 0: 5 }, tools: [5] });

  const problems = problemsOf(() => parseManifest(source));

  assert.deepEqual(
    problems.map(({ loc }) => loc),
    [
      ["spec", "tools", 0],
      ["spec", "tool_guidance", "0"],
    ],
  );
});

test("keys with slashes and tildes are reported as they were written", () => {
  const source = agent({ tool_guidance: { "a/b~c": 5 } });

  const [problem] = problemsOf(() => parseManifest(source));

  assert.deepEqual(problem?.loc, ["spec", "tool_guidance", "a/b~c"]);
});

test("the source is left as it is, and two manifests share nothing", () => {
  const source = agent({ extensions: { plugin: { list: [1] } } });
  const before = structuredClone(source);

  const first = parseManifest(source);
  const second = parseManifest(source);
  first.spec.tools.push("calculator");
  (first.spec.extensions.plugin as { list: number[] }).list.push(2);
  first.spec.guardrails.targets.length = 0;

  assert.deepEqual(source, before);
  assert.deepEqual(second.spec.tools, []);
  assert.deepEqual(second.spec.extensions, { plugin: { list: [1] } });
  assert.deepEqual(parseManifest(source).spec.guardrails.targets, ["input", "output"]);
});

test("a root that is no object is a type error of the manifest itself", () => {
  for (const source of [null, 5, [], "5", "", "- a", true])
    assert.deepEqual(
      problemsOf(() => parseManifest(source)).map(({ loc, type }) => [loc, type]),
      [[[], "type_error"]],
    );
});

test("free values of extensions and JSON Schemas are kept unchanged", () => {
  const extensions = { plugin: { constructor: 1, nested: [{ deep: null }] } };
  const output_schema = { type: "object", properties: { a: {} }, additionalProperties: false };

  const { spec } = parseManifest(agent({ extensions, output_schema }));

  assert.deepEqual(spec.extensions, extensions);
  assert.deepEqual(spec.output_schema, output_schema);
});

test("every kind of problem is documented in a sentence", () => {
  for (const [type, help] of Object.entries(problemTypes)) assert.match(help, /^[A-Z].*\.$/, type);
});
