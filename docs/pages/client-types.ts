import { readSettings } from "../../governance/settings/settings.ts";
import { openApiText } from "../../http/openapi/openapi.ts";
import { allRoutes } from "../../http/routes/all.ts";

// The types of the client, made from the document that /openapi.json serves.

/** The part of JSON Schema that the document uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly description?: string;
  readonly contentSchema?: { readonly items: Schema };
}

interface Operation {
  readonly summary: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<
    Record<
      string,
      { readonly content?: Readonly<Record<string, { readonly schema: Schema; readonly examples?: object }>> }
    >
  >;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** The text of client/api.d.ts. */
export function clientTypes(): string {
  const { settings } = readSettings({});
  const routes = allRoutes({ ...settings, triggers: null });
  const { paths, components } = JSON.parse([...openApiText(routes, "")].join("")) as Document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => routeType(`${method.toUpperCase()} ${path}`, operation)),
  );
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `${comment(schema.description)}export type ${name} = ${typeOf(schema)};\n`,
  );
  return `// Generated from /openapi.json by \`npm run generate\`.

/** Every route, with its input, its reply, its frames and its error codes. */
export interface Routes {
${operations.join("")}}

${schemas.join("\n")}`;
}

function routeType(name: string, { summary, parameters = [], requestBody, responses }: Operation): string {
  const placed = parameters.filter((parameter) => parameter.in !== "header");
  const input: Schema = {
    properties: Object.fromEntries(placed.map(({ name: of, schema }) => [of, schema])),
    required: placed.filter(({ required }) => required).map(({ name: of }) => of),
    additionalProperties: false,
  };
  const inputs = [...(placed.length > 0 ? [input] : []), ...Object.values(requestBody?.content ?? {}).map(schemaIn)];
  const bodies = Object.entries(responses).filter(([status]) => Number(status) < 400);
  const contents = bodies.flatMap(([, { content = {} }]) => Object.entries(content));
  const replies = contents
    .filter(([type]) => type !== "text/event-stream")
    .map(([type, { schema }]) => (type === "application/json" ? typeOf(schema) : "string"));
  const events = contents.flatMap(([, { schema }]) =>
    schema.contentSchema ? [typeOf(schema.contentSchema.items)] : [],
  );
  const refusals = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  const codes = refusals.flatMap(([, { content = {} }]) => Object.values(content).flatMap(codesIn));
  return `  /** ${summary} */
  "${name}": {
    input: ${inputs.length === 0 ? "Record<string, never>" : inputs.map((each) => typeOf(each, true)).join(" & ")};
    reply: ${union(replies.length > 0 ? replies : ["null"])};
    events: ${union(events.length > 0 ? events : ["never"])};
    errors: ${union(codes.length > 0 ? codes.map((code) => JSON.stringify(code)) : ["never"])};
  };
`;
}

function schemaIn({ schema }: { readonly schema: Schema }): Schema {
  return schema;
}

/** Returns the error codes of a refusal; an example is named after its code. */
function codesIn({ examples = {} }: { readonly examples?: object }): string[] {
  return Object.keys(examples).map((name) => name.split(".")[0] as string);
}

/** Returns a type. Fields that the schema of an input only allows are allowed; those of an answer are left out, as they may change. */
function typeOf(schema: Schema, isInput = false): string {
  if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map((value) => JSON.stringify(value)));
  const choices = schema.anyOf ?? schema.oneOf;
  const inner = (each: Schema): string => typeOf(each, isInput);
  if (choices !== undefined) return union(choices.map(inner));
  if (schema.allOf !== undefined) return schema.allOf.map((each) => `(${inner(each)})`).join(" & ");
  const { type = schema.properties ? "object" : undefined } = schema;
  if (typeof type === "object") return union(type.map((each) => inner({ ...schema, type: each })));
  switch (type) {
    case "string":
    case "boolean":
    case "null":
      return type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return `Array<${schema.items ? inner(schema.items) : "unknown"}>`;
    case "object":
      return objectOf(schema, isInput);
    default:
      return "unknown";
  }
}

function objectOf({ properties = {}, required = [], additionalProperties = true }: Schema, isInput: boolean): string {
  const fields = Object.entries(properties).map(
    ([name, schema]) =>
      `${comment(schema.description, " ")}${/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema, isInput)};`,
  );
  const others =
    typeof additionalProperties === "object" && fields.length === 0 ? typeOf(additionalProperties, isInput) : "unknown";
  if (additionalProperties !== false && (isInput || fields.length === 0)) fields.push(`[field: string]: ${others};`);
  return fields.length === 0 ? "Record<string, never>" : `{ ${fields.join(" ")} }`;
}

function comment(text: string | undefined, end = "\n"): string {
  return text === undefined ? "" : `/** ${text.replaceAll("*/", "*\\/").replaceAll(/\s+/g, " ")} */${end}`;
}

function union(types: readonly string[]): string {
  const all = [...new Set(types)];
  return all.includes("unknown") ? "unknown" : all.map((type) => (/ & /.test(type) ? `(${type})` : type)).join(" | ");
}
