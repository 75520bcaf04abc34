// Examples of bodies and answers for the API reference, generated from schemas. A value comes from the schema's own `examples` or from its
// fields, so the reference repeats none.

type Json = Readonly<Record<string, unknown>>;

/** Called with the path of each text field without an example: its schema needs one. */
export type Missing = (path: string) => void;

/**
 * Returns an example that fits the schema. Objects get the required fields without a default, and optional fields only if they declare an
 * example.
 */
export function exampleOf(schema: unknown, missing: Missing = () => {}): unknown {
  return make(schema as Json, { path: "", missing });
}

/** The path of the value in the whole example. */
interface At {
  readonly path: string;
  readonly missing: Missing;
}

function make(schema: Json, at: At): unknown {
  const own = declared(schema);
  if (own !== undefined) return own;
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.anyOf)) return make(schema.anyOf[0], at);
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (schema.default !== undefined) return schema.default;
  switch (schema.type) {
    case "object":
      return makeObject(schema, at);
    case "array":
      return [make((schema.items ?? {}) as Json, { ...at, path: `${at.path}[]` })];
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
      .map(([name, field]) => [name, make(field, { ...at, path: `${at.path}.${name}` })]),
  );
}

function declared(schema: Json): unknown {
  const of = (each: Json): unknown => (Array.isArray(each.examples) ? each.examples[0] : undefined);
  const own = of(schema);
  if (own !== undefined || !Array.isArray(schema.anyOf)) return own;
  // For a nullable field, the schema of the non-null value.
  return schema.anyOf.map(of).find((each) => each !== undefined);
}
