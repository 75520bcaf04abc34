import type { TSchema } from "typebox";
import { manifestSchema } from "./manifest.ts";

// Generates the manifest schema for editors. `npm run generate` writes it, and a test proves that the file is up to
// date.

/** Location of the generated file. */
export const schemaFile = new URL("../manifest.schema.json", import.meta.url);

/** Returns the text of the file: JSON Schema, draft 2020-12, in which fields with a default are optional. */
export function editorSchema(): string {
  const root = forEditors(manifestSchema as TSchema as Node, "");
  const schema = {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...root,
    title: "Manifest of an svc agent",
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

interface Node {
  readonly title?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly required?: readonly string[];
  readonly items?: Node;
  readonly additionalProperties?: Node | boolean;
  readonly default?: unknown;
  readonly patternHelp?: string;
}

function forEditors(node: Node, path: string): Node {
  const { patternHelp, required, properties, items, additionalProperties, description, ...rest } = node;
  const help = [description, patternHelp && `It ${patternHelp}.`].filter(Boolean).join(" ");
  const written = required?.filter((key) => properties?.[key]?.default === undefined) ?? [];
  return {
    ...(path === "" ? {} : { title: path }),
    ...(help === "" ? {} : { description: help }),
    ...rest,
    ...(written.length === 0 ? {} : { required: written }),
    ...(properties === undefined ? {} : { properties: mapNodes(properties, path) }),
    ...(items === undefined ? {} : { items: forEditors(items, `${path}[]`) }),
    ...(additionalProperties === undefined ? {} : { additionalProperties: forValues(additionalProperties, path) }),
  };
}

function mapNodes(properties: Readonly<Record<string, Node>>, path: string): Record<string, Node> {
  const entries = Object.entries(properties);
  return Object.fromEntries(
    entries.map(([key, node]) => [key, forEditors(node, path === "" ? key : `${path}.${key}`)]),
  );
}

function forValues(values: Node | boolean, path: string): Node | boolean {
  return typeof values === "boolean" ? values : forEditors(values, `${path}.*`);
}
