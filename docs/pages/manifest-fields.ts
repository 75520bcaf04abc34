import type { TSchema } from "typebox";
import { manifestSchema } from "../../manifests/schema/manifest.ts";
import { code, table } from "./markdown.ts";

/** The parts of a field's schema that the page shows. */
interface Field {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Field>>;
  readonly required?: readonly string[];
  readonly items?: Field;
  readonly additionalProperties?: Field | boolean;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly patternHelp?: string;
}

/** The text of docs/manifest-fields.md. */
export function manifestFieldsPage(): string {
  const { spec, ...rest } = (manifestSchema as TSchema as Field).properties ?? {};
  const inSpec = Object.entries(spec?.properties ?? {}).map(([key, field]) => [`spec.${key}`, field] as const);
  const [sections, single] = [inSpec.filter(([, field]) => hasFields(field)), inSpec.filter(([, f]) => !hasFields(f))];
  return `# Fields of manifests

Generated from \`manifests/sections/\` by \`npm run generate\`. An agent is one manifest, in YAML or JSON. Only \`metadata.name\` is
required; every other field has the default in the table. svc refuses a field that is not in this list, and suggests the nearest name.
\`svc validate-manifest FILE\` lists every problem of a file. Editors that know JSON Schema complete and check manifests with
\`manifests/manifest.schema.json\`.

A path ends in \`[]\` for each entry of a list and in \`.*\` for each value of a map.

## The manifest

${table(
  columns,
  [...Object.entries(rest), ...single].flatMap(([path, field]) => rows(path, field)),
)}

${sections.map(([path, field]) => `## ${path}\n\n${table(columns, rows(path, field))}`).join("\n\n")}
`;
}

const columns = ["Field", "Type", "Default", "Meaning"];

function rows(path: string, field: Field): string[][] {
  const own = [code(path), typeOf(field), defaultOf(field), sentence(field)];
  const inner = Object.entries(field.properties ?? {}).flatMap(([key, below]) => rows(`${path}.${key}`, below));
  const { items, additionalProperties: values } = field;
  const entries = items && hasFields(items) ? rows(`${path}[]`, items) : [];
  const mapped = typeof values === "object" && hasFields(values) ? rows(`${path}.*`, values) : [];
  return [own, ...inner, ...entries, ...mapped];
}

/** True for a field with fields of its own. */
function hasFields({ properties, items, additionalProperties }: Field): boolean {
  const inner = [items, additionalProperties].filter((each) => typeof each === "object");
  return properties !== undefined || inner.some(hasFields);
}

function sentence({ description = "", patternHelp }: Field): string {
  return [description, patternHelp && `It ${patternHelp}.`].filter(Boolean).join(" ");
}

/** `integer: 1 to 500`, `list of text`, `auto, json, text`. */
function typeOf(field: Field): string {
  const { type = "any", enum: values, items, additionalProperties } = field;
  if (values !== undefined) return values.filter((value) => value !== null).join(", ");
  const names = [type].flat().filter((name) => name !== "null");
  const name = names.map((each) => words[each] ?? each).join(" or ");
  if (names[0] === "array") return `list of ${items === undefined ? "anything" : plural(items)}${entriesOf(field)}`;
  if (typeof additionalProperties === "object") return `map of name to ${typeOf(additionalProperties)}`;
  const bounds = boundsOf(field);
  return bounds === "" ? name : `${name}: ${bounds}`;
}

const words: Readonly<Record<string, string>> = { string: "text", boolean: "true or false" };

function plural(items: Field): string {
  const of = typeOf(items);
  return of === "object" ? "objects" : of;
}

function entriesOf({ minItems, maxItems }: Field): string {
  if (minItems !== undefined && maxItems !== undefined) return `, ${minItems} to ${maxItems}`;
  if (minItems !== undefined) return `, at least ${minItems}`;
  return maxItems === undefined ? "" : `, at most ${maxItems}`;
}

function boundsOf({ minimum, maximum, exclusiveMinimum, maxLength }: Field): string {
  if (maxLength !== undefined) return `at most ${maxLength} characters`;
  if (exclusiveMinimum !== undefined)
    return `above ${exclusiveMinimum}${maximum === undefined ? "" : ` to ${maximum}`}`;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (minimum !== undefined) return `from ${minimum}`;
  return maximum === undefined ? "" : `to ${maximum}`;
}

/** The default of a section follows from its fields, so none is shown. */
function defaultOf(field: Field): string {
  if (field.properties !== undefined && field.default !== null) return "";
  if (field.default === undefined) return "required";
  const isEmpty = field.default === "" || isDeepEmpty(field.default);
  return isEmpty ? "" : code(JSON.stringify(field.default));
}

function isDeepEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
