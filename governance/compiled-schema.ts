import { createHash } from "node:crypto";

// Compiles JSON Schemas into the nodes that `schema-walk.ts` checks a value against. A `$ref` becomes a pointer to its target's
// node and is never expanded, so compiling takes time linear in the schema's text.

/** One compiled schema or subschema. Enumerations are sets for fast lookup. */
export interface SchemaNode {
  /** True for the schema `false`, which rejects every value. */
  readonly never: boolean;
  readonly types: readonly string[];
  readonly multipleOf: number | undefined;
  readonly maximum: number | undefined;
  readonly minimum: number | undefined;
  readonly exclusiveMaximum: number | undefined;
  readonly exclusiveMinimum: number | undefined;
  readonly maxLength: number | undefined;
  readonly minLength: number | undefined;
  readonly pattern: RegExp | null;
  readonly constant: { readonly value: unknown } | null;
  readonly oneOfValues: AllowedValues | null;
  readonly maxItems: number | undefined;
  readonly minItems: number | undefined;
  readonly maxProperties: number | undefined;
  readonly minProperties: number | undefined;
  readonly required: readonly string[];
  /** True if the node has none of the fields below, so that the walk needs no other node. */
  readonly isPlain: boolean;
  readonly ref: SchemaNode | null;
  readonly not: SchemaNode | null;
  readonly anyOf: readonly SchemaNode[] | null;
  readonly oneOf: readonly SchemaNode[] | null;
  readonly allOf: readonly SchemaNode[];
  readonly items: SchemaNode | null;
  readonly additionalProperties: SchemaNode | null;
  readonly properties: ReadonlyMap<string, SchemaNode>;
}

/** The values of an enum: scalars in a set, and lists and objects that need a deep comparison. */
export interface AllowedValues {
  readonly all: readonly unknown[];
  readonly scalars: ReadonlySet<unknown>;
  readonly others: readonly unknown[];
}

/** A compiled schema, or the keyword that the walk does not support. Only schemas of plugins may have such a keyword. */
export type CompiledSchema = { readonly root: SchemaNode } | { readonly root: null; readonly keyword: string };

/** Max compiled schemas that a thread caches, and max characters of their JSON. */
const keptMax = 256;
const keptCharsMax = 16 * 1024 * 1024;

/** Keywords of JSON Schema that affect validation and that the walk does not support. */
const unknownKeywords: ReadonlySet<string> = new Set([
  ...["patternProperties", "propertyNames", "unevaluatedProperties", "dependencies", "dependentRequired"],
  ...["dependentSchemas", "if", "contains", "prefixItems", "additionalItems", "unevaluatedItems", "uniqueItems"],
  ...["$dynamicRef", "$recursiveRef", "nullable"],
]);

/** By digest, least recently used first. */
const kept = new Map<string, { readonly schema: CompiledSchema; readonly chars: number }>();
let keptChars = 0;
/** By object identity, so that the schema of a tool is not hashed at each call. */
const byObject = new WeakMap<object, CompiledSchema>();

/** Number of compiled schemas that this thread caches by digest. */
export function compiledCount(): number {
  return kept.size;
}

/** Returns the compiled schema, shared by all equal schemas in use. */
export function compiledSchema(schema: object): CompiledSchema {
  let compiled = byObject.get(schema);
  if (compiled === undefined) {
    compiled = byDigest(schema);
    byObject.set(schema, compiled);
  }
  return compiled;
}

function byDigest(schema: object): CompiledSchema {
  const json = JSON.stringify(schema);
  const digest = createHash("sha256").update(json).digest("base64");
  const known = kept.get(digest);
  kept.delete(digest);
  const entry = known ?? { schema: compile(schema), chars: json.length };
  if (known === undefined) keptChars += entry.chars;
  kept.set(digest, entry);
  for (const [oldest, { chars }] of kept) {
    if (kept.size <= keptMax && keptChars <= keptCharsMax) break;
    kept.delete(oldest);
    keptChars -= chars;
  }
  return entry.schema;
}

class Unwalkable extends Error {}

function compile(schema: unknown): CompiledSchema {
  try {
    return { root: new Compiler(schema).node(schema) };
  } catch (error) {
    if (error instanceof Unwalkable) return { root: null, keyword: error.message };
    throw error;
  }
}

type Fields = Readonly<Record<string, unknown>>;
type Unfinished = { -readonly [Key in keyof SchemaNode]: SchemaNode[Key] };

class Compiler {
  readonly #root: unknown;
  /** By source object. A schema that is referenced twice, or by itself, has one node. */
  readonly #nodes = new Map<unknown, SchemaNode>();

  constructor(root: unknown) {
    this.#root = root;
  }

  node(schema: unknown): SchemaNode {
    let node = this.#nodes.get(schema);
    if (node === undefined) {
      const fresh: Unfinished = { ...anything, never: schema === false };
      this.#nodes.set(schema, fresh);
      if (typeof schema === "object" && schema !== null) this.#fill(fresh, schema as Fields);
      node = fresh;
    }
    return node;
  }

  #fill(node: Unfinished, schema: Fields): void {
    for (const keyword of Object.keys(schema)) if (unknownKeywords.has(keyword)) throw new Unwalkable(keyword);
    const { type, pattern, enum: values, items, properties, additionalProperties, $ref } = schema;
    for (const keyword of numbers) node[keyword] = schema[keyword] as number | undefined;
    node.types = type === undefined ? [] : ([type].flat() as string[]);
    node.pattern = typeof pattern === "string" ? new RegExp(pattern, "u") : null;
    node.constant = Object.hasOwn(schema, "const") ? { value: schema.const } : null;
    node.oneOfValues = Array.isArray(values) ? allowed(values) : null;
    node.required = (schema.required as string[] | undefined) ?? [];
    node.ref = $ref === undefined ? null : this.#referred($ref);
    node.not = schema.not === undefined ? null : this.node(schema.not);
    node.anyOf = schema.anyOf === undefined ? null : this.#list(schema.anyOf);
    node.oneOf = schema.oneOf === undefined ? null : this.#list(schema.oneOf);
    node.allOf = schema.allOf === undefined ? [] : this.#list(schema.allOf);
    if (Array.isArray(items)) throw new Unwalkable("items");
    node.items = items === undefined ? null : this.node(items);
    node.additionalProperties = additionalProperties === undefined ? null : this.node(additionalProperties);
    node.properties = new Map(Object.entries(properties ?? {}).map(([name, part]) => [name, this.node(part)]));
    const { ref, not, anyOf, oneOf, allOf } = node;
    node.isPlain =
      [ref, not, anyOf, oneOf, node.items, node.additionalProperties].every((part) => part === null) &&
      allOf.length === 0 &&
      node.required.length === 0 &&
      node.properties.size === 0;
  }

  #list(schemas: unknown): SchemaNode[] {
    return (schemas as readonly unknown[]).map((schema) => this.node(schema));
  }

  #referred(ref: unknown): SchemaNode {
    if (ref === "#") return this.node(this.#root);
    const [, where = "", name = ""] = (typeof ref === "string" && /^#\/(\$defs|definitions)\/([^/]+)$/.exec(ref)) || [];
    const definitions = (this.#root as Fields)[where];
    const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof definitions !== "object" || definitions === null || !Object.hasOwn(definitions, key))
      throw new Unwalkable("$ref");
    return this.node((definitions as Fields)[key]);
  }
}

const numbers = [
  ...(["multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength"] as const),
  ...(["maxItems", "minItems", "maxProperties", "minProperties"] as const),
];

const anything: SchemaNode = {
  ...{ never: false, types: [], pattern: null, constant: null, oneOfValues: null, required: [], isPlain: true },
  ...{ multipleOf: undefined, maximum: undefined, minimum: undefined, exclusiveMaximum: undefined },
  ...{ exclusiveMinimum: undefined, maxLength: undefined, minLength: undefined, maxItems: undefined },
  ...{ minItems: undefined, maxProperties: undefined, minProperties: undefined },
  ...{ ref: null, not: null, anyOf: null, oneOf: null, allOf: [], items: null, additionalProperties: null },
  properties: new Map(),
};

function allowed(values: readonly unknown[]): AllowedValues {
  const isScalar = (value: unknown) => typeof value !== "object" || value === null;
  return {
    all: values,
    scalars: new Set(values.filter(isScalar)),
    others: values.filter((value) => !isScalar(value)),
  };
}
