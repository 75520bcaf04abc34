import type { Path } from "./problems.ts";
import { isFilledList, type KeywordForm, keywordForms } from "./schema-keywords.ts";

// Checks reply schemas that tenants write, so that validating a model's reply is cheap. The size is bounded, with
// references expanded. Recursion, regular expressions and comparisons of all items with each other are refused by name.
// A request may bring a schema, so the check takes linear time.

/** The required format of a reply. */
export interface AnswerSchema {
  /** JSON text of the schema as written, for providers. */
  readonly json: string;
  /** The same schema, for validating replies. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** True if every object is closed and requires all its keys, so that providers can guarantee it. */
  readonly isStrict: boolean;
}

/** Max schemas and enum values of a schema, with references expanded. */
const partsMax = 2_000;
/** Max nesting of schemas, with references expanded: recursive code needs a stack of that depth. */
const depthMax = 128;
const charsMax = 64 * 1024;

const forms: ReadonlyMap<string, KeywordForm> = new Map([
  ...keywordForms,
  ...["title", "description"].map((name) => [name, { fits: isText, form: "a text" }] as const),
  ["enum", { fits: isFilledList, form: "a list of values" }],
  ["examples", { fits: Array.isArray, form: "a list" }],
]);
/** Keywords that constrain no value. */
const silent = new Set(["$schema", "$id", "$comment", "$defs", "definitions", "format"]);
/** Keywords that accept any value. */
const free = new Set([...silent, "const", "default"]);

/** Reads a schema of a manifest. Calls `refuse` with the position and the reason if it is not supported. */
export function readAnswerSchema(
  schema: Readonly<Record<string, unknown>>,
  refuse: (at: Path, says: string) => void,
): AnswerSchema | null {
  const json = JSON.stringify(schema);
  if (json.length > charsMax) {
    refuse([], `is longer than ${charsMax} characters`);
    return null;
  }
  const reader = new SchemaReader(schema);
  try {
    reader.read();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    refuse(error.at, error.message);
    return null;
  }
  return { json, schema, isStrict: reader.isStrict };
}

/** A reason to refuse a schema, and its position. */
class Refusal extends Error {
  readonly at: Path;

  constructor(at: At | null, says: string) {
    super(says);
    const path: (string | number)[] = [];
    for (let place = at; place !== null; place = place.within) path.push(place.key);
    this.at = path.reverse();
  }
}

/** A position in the schema, from the inside out. */
interface At {
  readonly key: string | number;
  readonly within: At | null;
}

interface Definition {
  readonly schema: unknown;
  /** Null while it is being read. */
  parts: number | null;
  /** Nesting of schemas, starting at this one. */
  depth: number;
}

class SchemaReader {
  isStrict = true;
  readonly #root: Readonly<Record<string, unknown>>;
  /** Definitions by reference. Each is read once, but counts at every reference. */
  readonly #definitions = new Map<string, Definition>();
  #parts = 0;
  #depth = 0;
  /** Max depth so far of the current definition, or of the whole schema. */
  #deepest = 0;

  constructor(root: Readonly<Record<string, unknown>>) {
    this.#root = root;
  }

  /** Throws Refusal. */
  read(): void {
    this.#schema(this.#root, null);
    let top: unknown = this.#root;
    while (isObject(top) && isReference(top)) top = this.#definitions.get(top.$ref as string)?.schema;
    if (!isObject(top) || top.$ref !== undefined || top.type !== "object")
      throw new Refusal(null, 'must be of the type "object"');
  }

  #schema(schema: unknown, at: At | null): void {
    this.#count(1);
    if (typeof schema === "boolean") return;
    if (!isObject(schema)) throw new Refusal(at, "must be a schema");
    this.#reach(++this.#depth);
    for (const [keyword, value] of Object.entries(schema)) this.#keyword(keyword, value, { key: keyword, within: at });
    this.#depth--;
    if (isObject(schema.properties) || schema.type === "object") this.isStrict &&= isClosed(schema);
  }

  #keyword(keyword: string, value: unknown, at: At): void {
    const form = forms.get(keyword);
    if (form?.fits(value) === false) throw new Refusal(at, `is not ${form.form}`);
    if (keyword === "enum") this.#count((value as readonly unknown[]).length);
    if (form !== undefined || free.has(keyword)) return;
    switch (keyword) {
      case "$ref":
        this.#reference(value, at);
        break;
      case "items":
      case "additionalProperties":
        this.#schema(value, at);
        break;
      case "anyOf":
      case "oneOf":
      case "allOf":
        this.#schemas(isFilledList(value) ? value.entries() : null, at);
        break;
      case "properties":
        this.#schemas(isObject(value) ? Object.entries(value) : null, at);
        break;
      default:
        throw new Refusal(at, "is a keyword that is not supported here");
    }
  }

  #schemas(parts: Iterable<readonly [string | number, unknown]> | null, at: At): void {
    if (parts === null) throw new Refusal(at, "does not hold schemas");
    for (const [key, part] of parts) this.#schema(part, { key, within: at });
  }

  #reference(ref: unknown, at: At): void {
    const known = typeof ref === "string" ? this.#definitions.get(ref) : undefined;
    if (known?.parts === null) throw new Refusal(at, "leads to itself");
    if (known !== undefined) {
      this.#count(known.parts);
      this.#reach(this.#depth + known.depth);
      return;
    }
    const found = typeof ref === "string" ? /^#\/(\$defs|definitions)\/([^/]+)$/.exec(ref) : null;
    if (found === null) throw new Refusal(at, "must lead to $defs or definitions of the same schema");
    const defs = this.#root[found[1] as string];
    const key = (found[2] as string).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(defs) || !Object.hasOwn(defs, key)) throw new Refusal(at, "leads nowhere");
    const definition: Definition = { schema: defs[key], parts: null, depth: 0 };
    this.#definitions.set(ref as string, definition);
    const [parts, deepest] = [this.#parts, this.#deepest];
    this.#deepest = this.#depth;
    this.#schema(definition.schema, at.within);
    definition.parts = this.#parts - parts;
    definition.depth = this.#deepest - this.#depth;
    this.#deepest = Math.max(deepest, this.#deepest);
  }

  #reach(depth: number): void {
    this.#deepest = Math.max(this.#deepest, depth);
    if (depth > depthMax) throw new Refusal(null, `is nested deeper than ${depthMax} with its references in place`);
  }

  #count(parts: number): void {
    this.#parts += parts;
    if (this.#parts > partsMax) throw new Refusal(null, `has more than ${partsMax} parts with its references in place`);
  }
}

/** True if the schema consists of a reference only. */
function isReference(schema: Readonly<Record<string, unknown>>): boolean {
  return schema.$ref !== undefined && Object.keys(schema).every((keyword) => keyword === "$ref" || silent.has(keyword));
}

/** True if the object is closed and requires all its properties. */
function isClosed({ properties, required, additionalProperties }: Record<string, unknown>): boolean {
  const names = isObject(properties) ? Object.keys(properties) : [];
  const needed = new Set(Array.isArray(required) ? required : []);
  return additionalProperties === false && Array.isArray(required) && names.every((name) => needed.has(name));
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads a schema of svc itself; throws if it is refused. */
export function readOwnSchema(schema: Readonly<Record<string, unknown>>): AnswerSchema {
  const read = readAnswerSchema(schema, (at, says) => {
    throw new Error(`${at.join(".")} ${says}`);
  });
  return read as AnswerSchema;
}
