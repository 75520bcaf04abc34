import type { Static, TProperties, TSchema, TUnsafe } from "typebox";
import { Type } from "../../bus/type.ts";

// The kinds of field that the schema consists of. The parser fills in a field with a default, so it is always present
// in a parsed manifest. A field without a default is required, unless wrapped in Type.Optional.
// A nullable field is `type: [T, "null"]` and not anyOf, so that each problem has one exact path.

interface TextRules {
  readonly default?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  /** Continues the sentence "<path> …" if the pattern does not match. */
  readonly patternHelp?: string;
  /** Suggestions for editors. */
  readonly examples?: readonly string[];
}

interface NumberRules {
  readonly default?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

/** Default max entries of a list or a map. */
const entriesMax = 64;

/** Max timeout of any tool, in milliseconds. */
export const timeoutMsMax = 3_600_000;

export const modelIdHelp = "Logical id of a model route.";

/** A required text. */
export function text(description: string, { examples, ...rules }: TextRules = {}) {
  return Type.String({ description, minLength: 1, ...rules, ...(examples && { examples: [...examples] }) });
}

/** A text, empty by default. */
export function optionalText(description: string, rules: TextRules = {}) {
  return Type.String({ description, default: "", ...rules });
}

/** A boolean, false by default. */
export function flag(description: string, byDefault = false) {
  return Type.Boolean({ description, default: byDefault });
}

/** A whole number. */
export function integer(description: string, rules: NumberRules) {
  return Type.Integer({ description, ...rules });
}

/** Any finite number. */
export function number(description: string, rules: NumberRules) {
  return Type.Number({ description, ...rules });
}

/** One of several words. Required, unless `byDefault` is given. */
export function choice<const V extends string>(description: string, values: readonly V[], byDefault?: NoInfer<V>) {
  return Type.Unsafe<V>({
    type: "string",
    description,
    enum: [...values],
    ...(byDefault === undefined ? {} : { default: byDefault }),
  });
}

/** Makes a field nullable, with null as its default. */
export function nullable<S extends TSchema>(schema: S): TUnsafe<Static<S> | null> {
  const { type, enum: values, ...rest } = schema as { type?: string; enum?: readonly string[] } & TSchema;
  return Type.Unsafe<Static<S> | null>({
    ...rest,
    type: [type, "null"],
    ...(values === undefined ? {} : { enum: [...values, null] }),
    default: null,
  });
}

interface ListRules<V = unknown> {
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly default?: readonly V[];
}

/** A list, empty by default; required if `minItems` is given. */
export function list<S extends TSchema>(description: string, items: S, rules: ListRules<Static<S>> = {}) {
  const { default: byDefault = [], ...bounds } = rules;
  const filled = rules.minItems === undefined ? { default: [...byDefault] } : {};
  return Type.Array(items, { description, ...filled, maxItems: entriesMax, ...bounds });
}

/** A list of non-empty texts. */
export function texts(description: string, rules: ListRules<string> = {}) {
  return list(description, Type.String({ minLength: 1 }), rules);
}

/** Names of tools, or globs with `*` and `?`. */
export function toolGlobs(description: string, rules: ListRules<string> = {}) {
  return list(`${description} Names or globs with * and ?.`, Type.String({ minLength: 1, maxLength: 256 }), rules);
}

/** A required object without additional keys. */
export function closed<P extends TProperties>(description: string, properties: P) {
  return Type.Object(properties, { description, additionalProperties: false });
}

/** An object without additional keys; its default consists of the defaults of its fields. */
export function section<P extends TProperties>(description: string, properties: P) {
  return Type.Object(properties, { description, additionalProperties: false, default: {} });
}

/** A map with free keys and values of one kind, empty by default. */
export function mapOf<S extends TSchema>(description: string, values: S, maxProperties = entriesMax) {
  return Type.Unsafe<Record<string, Static<S>>>({
    type: "object",
    description,
    additionalProperties: values,
    maxProperties,
    default: {},
  });
}

/** A JSON object with unchecked contents, null by default. */
export function jsonObject(description: string) {
  return nullable(Type.Unsafe<Record<string, unknown>>({ type: "object", description }));
}

/** A name that becomes part of a tool's name. */
export function toolName(description: string) {
  return text(description, {
    maxLength: 64,
    pattern: "^[A-Za-z0-9_-]+$",
    patternHelp: "may hold letters, digits, _ and - only",
  });
}

/** True if a failure of the tool ends the run. */
export function fatal() {
  return flag("True ends the run when the tool fails.");
}

/** A number from 0 to 1. */
export function share(description: string, byDefault: number) {
  return number(description, { minimum: 0, maximum: 1, default: byDefault });
}

/** Id of an endpoint in SVC_WEBHOOK_ENDPOINTS. */
export function endpointId(description: string) {
  return text(description, {
    pattern: "^[a-z0-9][a-z0-9_-]{0,63}$",
    patternHelp: "must be 1 to 64 lower-case letters, digits, _ or -, and start with a letter or digit",
  });
}

const keySegment = "(?!\\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,200}";

/** Key of a text in the object store, relative to the tenant's prompts. */
export function objectKey(description: string) {
  return text(description, {
    maxLength: 512,
    pattern: `^${keySegment}(?:/${keySegment})*$`,
    patternHelp:
      "must be segments of letters, digits, . _ ~ and - with / between them, none of them . or .. or longer than 200",
  });
}
