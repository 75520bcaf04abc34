import type { TSchema } from "typebox";
import { meant } from "../../bus/nearest.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import { type Path, type Problem, type ProblemType, writePath } from "../problems.ts";

// Validates by walking the schema and the value together. Ajv reports the same problems in the same order, but compiles
// the schema first. That takes 100 ms and 15 MiB per thread, for a check that only a changed manifest needs.

/** The part of JSON Schema that the fields of manifests use. */
interface Node {
  readonly type?: string | readonly string[];
  readonly maximum?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maxLength?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  readonly patternHelp?: string;
  readonly enum?: readonly (string | null)[];
  readonly maxItems?: number;
  readonly minItems?: number;
  readonly items?: Node;
  readonly maxProperties?: number;
  readonly required?: readonly string[];
  readonly additionalProperties?: Node | false;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly default?: unknown;
}

/** Keywords that the walk checks, and those that it may ignore. A test compares the schema with both lists. */
export const knownKeywords = {
  checked: [
    ...["type", "maximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "enum", "maxItems"],
    ...["minItems", "items", "maxProperties", "required", "additionalProperties", "properties", "default"],
  ],
  told: ["description", "examples", "patternHelp"],
} as const;

/**
 * Returns the problems of single fields, in the order of the schema, and fills in missing defaults in `value`. Stops
 * checking a list or an object after `problemsMax` problems, which bounds the work.
 */
export function fieldProblems(schema: TSchema, value: unknown): Problem[] {
  const walk = new Walk();
  walk.check(schema as Node, value);
  return walk.problems;
}

class Walk {
  readonly problems: Problem[] = [];
  readonly #path: (string | number)[] = [];

  check(node: Node, value: unknown): void {
    const types = [node.type ?? []].flat();
    if (types.length > 0 && !types.some((type) => isOf(type, value)))
      this.#add("type_error", `must be ${typeWords(types, value)}${shapeWords(node, value)}`);
    if (typeof value === "number") this.#number(node, value);
    if (typeof value === "string") this.#text(node, value);
    if (node.enum && !(node.enum as readonly unknown[]).includes(value))
      this.#add(
        "enum",
        `must be ${node.enum.length > 1 ? "one of " : ""}${node.enum.map((word) => word ?? "null").join(", ")}`,
      );
    if (Array.isArray(value)) this.#list(node, value);
    else if (isOf("object", value)) this.#object(node, value as Record<string, unknown>);
  }

  #number({ maximum, minimum, exclusiveMinimum }: Node, value: number): void {
    if (maximum !== undefined && value > maximum) this.#add("out_of_range", `must be at most ${maximum}`);
    if (minimum !== undefined && value < minimum) this.#add("out_of_range", `must be at least ${minimum}`);
    if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
      this.#add("out_of_range", `must be above ${exclusiveMinimum}`);
  }

  #text({ maxLength, minLength, pattern, patternHelp }: Node, value: string): void {
    if (maxLength !== undefined && charactersOf(value) > maxLength)
      this.#add("too_long", `must have at most ${maxLength} characters`);
    if (minLength !== undefined && charactersOf(value) < minLength)
      this.#add("too_short", `must have at least ${minLength} characters`);
    if (pattern !== undefined && !expressionOf(pattern).test(value)) this.#add("pattern", `${patternHelp}`);
  }

  #list({ maxItems, minItems, items }: Node, value: readonly unknown[]): void {
    if (maxItems !== undefined && value.length > maxItems)
      this.#add("too_long", `must have at most ${maxItems} entries`);
    if (minItems !== undefined && value.length < minItems)
      this.#add("too_short", `must have at least ${minItems === 1 ? "one entry" : `${minItems} entries`}`);
    if (items) this.#each(value.keys(), (at) => this.#below(at, items, value[at]));
  }

  #object(node: Node, value: Record<string, unknown>): void {
    const { maxProperties, required = [], additionalProperties, properties = {} } = node;
    for (const [key, field] of Object.entries(properties))
      if (field.default !== undefined && value[key] === undefined) value[key] = structuredClone(field.default);
    const keys = Object.keys(value);
    if (maxProperties !== undefined && keys.length > maxProperties)
      this.#add("too_long", `must have at most ${maxProperties} entries`);
    for (const key of required) if (value[key] === undefined) this.#add("missing", "is required", key);
    const others = keys.filter((key) => !Object.hasOwn(properties, key));
    if (additionalProperties === false)
      this.#each(others, (key) => {
        // No field name contains a blank: an unquoted text was split at a comma or a colon.
        const advice = key.includes(" ")
          ? "; a text with a comma or a colon in it needs quotes"
          : this.#meant(key, properties);
        const msg = `${key} is not a field of ${writePath(this.#path)}${advice}.`;
        this.problems.push({ loc: [...this.#path, key], msg, type: "extra_forbidden" });
      });
    else if (additionalProperties) this.#each(others, (key) => this.#below(key, additionalProperties, value[key]));
    for (const [key, field] of Object.entries(properties))
      if (value[key] !== undefined) this.#below(key, field, value[key]);
  }

  /** Suggests the correct place for a field that is one level too high, and otherwise the nearest name. */
  #meant(key: string, properties: Readonly<Record<string, Node>>): string {
    const owners = Object.keys(properties).filter((name) => Object.hasOwn(properties[name]?.properties ?? {}, key));
    const [owner, second] = owners;
    if (owner === undefined || second !== undefined) return meant(key, Object.keys(properties));
    return ` (did you mean ${writePath([...this.#path, owner, key])}?)`;
  }

  /** Stops after enough problems. */
  #each<K>(keys: Iterable<K>, check: (key: K) => void): void {
    const enough = this.problems.length + problemsMax;
    for (const key of keys) {
      check(key);
      if (this.problems.length >= enough) break;
    }
  }

  #below(step: string | number, node: Node, value: unknown): void {
    this.#path.push(step);
    this.check(node, value);
    this.#path.pop();
  }

  #add(type: ProblemType, says: string, ...key: string[]): void {
    const loc: Path = [...this.#path, ...key];
    this.problems.push({ loc, msg: `${writePath(loc)} ${says}.`, type });
  }
}

function isOf(type: string, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}

/** Counts code points, which are closest to characters as users see them. */
function charactersOf(text: string): number {
  let characters = 0;
  for (const _ of text) characters++;
  return characters;
}

function expressionOf(pattern: string): RegExp {
  let expression = expressions.get(pattern);
  if (expression === undefined) {
    expression = new RegExp(pattern, "u");
    expressions.set(pattern, expression);
  }
  return expression;
}

/** Bounded by the number of patterns in the schema. */
const expressions = new Map<string, RegExp>();

const typeNames: Record<string, string> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  object: "an object",
  array: "a list",
  null: "null",
};

function typeWords(types: readonly string[], value: unknown): string {
  const words = types.map((type) => typeNames[type] ?? type);
  const unquoted = words.includes("text") && (typeof value === "number" || typeof value === "boolean");
  if (unquoted) return `${words.join(" or ")}; put it in quotes`;
  const isQuoted = typeof value === "string" && types.some((type) => isOf(type, unquotedValue(value)));
  return words.join(" or ") + (isQuoted ? "; take it out of the quotes" : "");
}

/** Returns the number or boolean that an unquoted text would be, else undefined. */
function unquotedValue(text: string): unknown {
  if (/^-?\d{1,15}(?:\.\d{1,15})?$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : undefined;
}

/** Suggests the required shape for a scalar, `{inline: …}` or `[…]`, if its content would be valid there. */
function shapeWords({ type, properties = {}, items }: Node, value: unknown): string {
  const types = [type ?? []].flat();
  const takes = (node: Node): boolean => [node.type ?? []].flat().some((one) => one !== "null" && isOf(one, value));
  if (typeof value === "object") return "";
  const field = types.includes("object") && Object.keys(properties).find((key) => takes(properties[key] as Node));
  if (field) return `, as in {${field}: …}`;
  return types.includes("array") && items && takes(items) ? ", as in […]" : "";
}
