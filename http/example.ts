import { answerExamples, fieldExamples } from "./field-examples.ts";

// Examples of bodies and answers for the API reference, generated from schemas. A value comes from the schema's own `examples`, from its
// fields, or from the list of examples by field name, so the reference repeats none.

type Json = Readonly<Record<string, unknown>>;

/** Called with the path of each text field without an example: such a field needs one by its name or in its schema. */
export type Missing = (path: string) => void;

/** Examples by field name; requests and answers differ. */
type Names = Readonly<Record<string, readonly unknown[]>>;
const names: Readonly<Record<"request" | "answer", Names>> = {
  request: fieldExamples,
  answer: { ...fieldExamples, ...answerExamples },
};

/**
 * Returns an example that fits the schema. Objects get the required fields without a default, and optional fields only if they declare an
 * example.
 */
export function exampleOf(schema: unknown, place: keyof typeof names, missing: Missing = () => {}): unknown {
  return make(schema as Json, "", { path: "", known: names[place], missing });
}

/** The path of the value in the whole example, and the known examples. */
interface At {
  readonly path: string;
  readonly known: Names;
  readonly missing: Missing;
}

function make(schema: Json, name: string, at: At): unknown {
  const own = declared(schema);
  if (own !== undefined) return own;
  if ("const" in schema) return schema.const;
  const known = at.known[name]?.find((value) => fits(schema, value));
  if (known !== undefined) return known;
  if (Array.isArray(schema.anyOf)) return make(schema.anyOf[0], name, at);
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  switch (schema.type) {
    case "object":
      return makeObject(schema, at);
    case "array":
      return [make((schema.items ?? {}) as Json, "", { ...at, path: `${at.path}[]` })];
    case "boolean":
      return true;
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "null":
      return null;
    default:
      at.missing(at.path);
      return "text";
  }
}

function makeObject({ properties = {}, required = [] }: Json, at: At): Json {
  const needed = new Set(required as readonly string[]);
  return Object.fromEntries(
    Object.entries(properties as Readonly<Record<string, Json>>)
      .filter(([name, field]) => declared(field) !== undefined || (needed.has(name) && field.default === undefined))
      .map(([name, field]) => [name, make(field, name, { ...at, path: `${at.path}.${name}` })]),
  );
}

function declared(schema: Json): unknown {
  const of = (each: Json): unknown => (Array.isArray(each.examples) ? each.examples[0] : undefined);
  // For a nullable field, the schema of the non-null value.
  return (
    of(schema) ?? (Array.isArray(schema.anyOf) ? schema.anyOf.map(of).find((each) => each !== undefined) : undefined)
  );
}

/** True if the example by name fits the field's schema. The check is partial; tests validate whole examples against whole schemas. */
function fits(schema: Json, value: unknown): boolean {
  if (Array.isArray(schema.anyOf)) return schema.anyOf.some((each) => fits(each, value));
  if (Array.isArray(schema.enum)) return schema.enum.includes(value);
  if ("const" in schema) return schema.const === value;
  const types = schema.type === undefined ? null : [schema.type].flat();
  if (types !== null && !types.includes(typeOf(value)) && !(types.includes("number") && typeof value === "number"))
    return false;
  if (typeof value === "string")
    return (
      value.length <= ((schema.maxLength as number | undefined) ?? Infinity) &&
      value.length >= ((schema.minLength as number | undefined) ?? 0) &&
      (typeof schema.pattern !== "string" || new RegExp(schema.pattern, "u").test(value))
    );
  if (typeof value === "number")
    return (
      value <= ((schema.maximum as number | undefined) ?? Infinity) &&
      value >= ((schema.minimum as number | undefined) ?? -Infinity)
    );
  if (Array.isArray(value)) return value.every((each) => fits((schema.items ?? {}) as Json, each));
  if (value === null || typeof value !== "object") return true;
  const {
    required = [],
    properties = {},
    additionalProperties,
  } = schema as {
    readonly required?: readonly string[];
    readonly properties?: Readonly<Record<string, Json>>;
    readonly additionalProperties?: unknown;
  };
  const known = Object.entries(value).every(([name, field]) =>
    properties[name] === undefined ? additionalProperties !== false : fits(properties[name], field),
  );
  return known && required.every((field) => Object.hasOwn(value, field));
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
