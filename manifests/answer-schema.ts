import { lazily } from "../bus/lazily.ts";
import { ajvPackage } from "../bus/schema-validator.ts";
import type { Path } from "./problems.ts";

// The schema of an answer is written by tenants and held against what a model says, so it has to be one that is cheap to ask: a tree
// of a bounded size, in which no value is looked at more often than there are nodes. References are put in place, and what is left
// out says so: recursion, regular expressions, and what compares all items with all others.

/** What a reply has to be like. */
export interface AnswerSchema {
  /** JSON text of the schema as it is written, for providers. */
  readonly json: string;
  /** The same without references, for looking at answers. */
  readonly tree: Readonly<Record<string, unknown>>;
  /** Whether every object in it is closed and has all its keys: providers promise the most for those. */
  readonly isStrict: boolean;
}

/** Nodes of a schema with its references in place. */
const nodesMax = 2_000;
const charsMax = 64 * 1024;

/** Keywords that are kept as they are. */
const plain = new Set([
  ...["type", "enum", "const", "required", "title", "description", "default", "examples"],
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  ...["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"],
]);
/** Keywords that say nothing about a value, or nothing that is looked at. */
const silent = new Set(["$schema", "$id", "$comment", "$defs", "definitions", "format"]);
const listsOfSchemas = new Set(["anyOf", "oneOf", "allOf"]);

const ajv = lazily(() => new (ajvPackage().Ajv)({ strict: false, validateFormats: false }));

/** Reads a schema of a manifest; `refuse` is told what of it cannot be honoured, and where. */
export function readAnswerSchema(
  schema: Readonly<Record<string, unknown>>,
  refuse: (at: Path, says: string) => void,
): AnswerSchema | null {
  const read = readTree(schema, refuse);
  if (read === null || ajv().validateSchema(read.tree) === true) return read;
  const [error] = ajv().errors ?? [];
  refuse([], `is no JSON Schema: ${error?.instancePath ?? ""} ${error?.message ?? ""}`.trimEnd());
  return null;
}

function readTree(
  schema: Readonly<Record<string, unknown>>,
  refuse: (at: Path, says: string) => void,
): AnswerSchema | null {
  const json = JSON.stringify(schema);
  if (json.length > charsMax) {
    refuse([], `is longer than ${charsMax} characters`);
    return null;
  }
  const reader = new SchemaReader(schema, refuse);
  const tree = reader.node(schema, [], []);
  if (reader.isRefused) return null;
  if (!isObject(tree) || tree.type !== "object") {
    refuse([], 'must be of the type "object"');
    return null;
  }
  return { json, tree, isStrict: reader.isStrict };
}

class SchemaReader {
  isRefused = false;
  isStrict = true;
  readonly #root: Readonly<Record<string, unknown>>;
  readonly #refuse: (at: Path, says: string) => void;
  #nodes = 0;

  constructor(root: Readonly<Record<string, unknown>>, refuse: (at: Path, says: string) => void) {
    this.#root = root;
    this.#refuse = refuse;
  }

  /** A schema with its references in place; `within` are those that it is reached by. */
  node(schema: unknown, at: Path, within: readonly string[]): unknown {
    if (this.isRefused || typeof schema === "boolean") return schema;
    if (++this.#nodes > nodesMax) return this.#no([], `has more than ${nodesMax} parts with its references in place`);
    if (!isObject(schema)) return this.#no(at, "must be a schema");
    const { $ref, ...rest } = schema;
    if ($ref !== undefined) return this.#referred($ref, rest, at, within);
    const node: Record<string, unknown> = {};
    for (const [keyword, value] of Object.entries(schema)) {
      const here = [...at, keyword];
      if (silent.has(keyword)) continue;
      else if (plain.has(keyword)) node[keyword] = value;
      else if (listsOfSchemas.has(keyword) && Array.isArray(value))
        node[keyword] = value.map((part, index) => this.node(part, [...here, index], within));
      else if (keyword === "properties" && isObject(value))
        node[keyword] = Object.fromEntries(
          Object.entries(value).map(([name, part]) => [name, this.node(part, [...here, name], within)]),
        );
      else if (keyword === "items" || keyword === "additionalProperties")
        node[keyword] = this.node(value, here, within);
      else return this.#no(here, "is a keyword that is not supported here");
    }
    if (isObject(node.properties) || node.type === "object") this.isStrict &&= isClosed(node);
    return node;
  }

  /** What a reference leads to, and what stands beside it. */
  #referred(ref: unknown, beside: Record<string, unknown>, at: Path, within: readonly string[]): unknown {
    const found = typeof ref === "string" ? /^#\/(\$defs|definitions)\/([^/]+)$/.exec(ref) : null;
    if (found === null) return this.#no([...at, "$ref"], "must lead to $defs or definitions of the same schema");
    const name = found[0];
    if (within.includes(name)) return this.#no([...at, "$ref"], "leads to itself");
    const defs = this.#root[found[1] as string];
    const key = (found[2] as string).replaceAll("~1", "/").replaceAll("~0", "~");
    const target = isObject(defs) && Object.hasOwn(defs, key) ? defs[key] : undefined;
    if (target === undefined) return this.#no([...at, "$ref"], "leads nowhere");
    const node = this.node(target, at, [...within, name]);
    const kept = Object.keys(beside).filter((keyword) => !silent.has(keyword));
    if (kept.length === 0) return node;
    return { allOf: [node, this.node(beside, at, within)] };
  }

  #no(at: Path, says: string): null {
    if (!this.isRefused) this.#refuse(at, says);
    this.isRefused = true;
    return null;
  }
}

/** Whether an object has all the keys that it may have. */
function isClosed({ properties, required, additionalProperties }: Record<string, unknown>): boolean {
  const names = isObject(properties) ? Object.keys(properties) : [];
  return additionalProperties === false && Array.isArray(required) && names.every((name) => required.includes(name));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A schema of our own, which needs nobody to say that it is one: for that the schema of schemas is compiled, at the start of each thread. */
export function readOwnSchema(schema: Readonly<Record<string, unknown>>): AnswerSchema {
  const read = readTree(schema, (at, says) => {
    throw new Error(`${at.join(".")} ${says}`);
  });
  return read as AnswerSchema;
}
