import assert from "node:assert/strict";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { editorSchema } from "../../../manifests/schema/json-schema.ts";
import { agent, type SchemaNode } from "../support.ts";

test("the editor schema is draft 2020-12, and asks for no field that has a default", () => {
  const schema = JSON.parse(editorSchema()) as SchemaNode & { $schema: string };
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });

  const validate = ajv.compile(schema);

  assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
  assert.deepEqual(schema.required, ["metadata"]);
  assert.equal(validate(agent()), true, JSON.stringify(validate.errors));
  assert.equal(validate(parseManifest(agent())), true, JSON.stringify(validate.errors));
  assert.equal(validate(agent({ unknown: 1 })), false);
});

test("every named field has a title and a description", () => {
  const schema = JSON.parse(editorSchema()) as SchemaNode;
  const bare: string[] = [];
  const walk = (node: SchemaNode, path: string) => {
    for (const [key, field] of Object.entries(node.properties ?? {})) {
      const { title, description } = field as { title?: string; description?: string };
      if (!title || !description) bare.push(`${path}.${key}`);
      walk(field, `${path}.${key}`);
    }
    if (node.items) walk(node.items, `${path}[]`);
  };

  walk(schema, "");

  assert.deepEqual(bare, []);
});
