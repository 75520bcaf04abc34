import type { Static, TProperties, TSchema, TUnsafe } from "typebox";
import { Type } from "../../bus/type.ts";

// The few kinds of field that the schema is made of. A field with a default is filled in by the parser, so it is always there
// in a parsed manifest. A field without one must be written, unless it is wrapped in Type.Optional.
// A nullable field is `type: [T, "null"]` and never anyOf: then every refusal has one exact path.

interface TextRules {
  readonly default?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  /** Ends the sentence "<path> …" when the pattern does not match. */
  readonly patternHelp?: string;
  /** What an editor offers. */
  readonly examples?: readonly string[];
}

interface NumberRules {
  readonly default?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

/** Most entries of a list or a map that names no bound of its own. */
const entriesMax = 64;

/** Milliseconds: the greatest timeout of any tool. */
export const timeoutMsMax = 3_600_000;

export const modelIdHelp = "Logical id of a model route.";

/** What is known of a field that nothing carries out. */
export interface Unbuilt {
  /** In words: a default that promises something all the same. It is accepted, and told by validate-manifest and the documents. */
  readonly promises?: string;
  /** Values besides the default that do work: how documents call them, and how they are told from others. */
  readonly but?: { readonly words: string; readonly pattern: string };
}

/**
 * Marks a field, or a section with all that is in it, that is parsed and checked but that nothing carries out yet: a manifest that
 * gives it another value than its default is refused, so that nothing is silently left undone. Who builds the behaviour takes
 * the mark away.
 */
export function unbuilt<S extends TSchema>(schema: S, about: Unbuilt = {}): S {
  return Object.assign(schema, { unbuilt: about });
}

/** Text that must be written. */
export function text(description: string, { examples, ...rules }: TextRules = {}) {
  return Type.String({ description, minLength: 1, ...rules, ...(examples && { examples: [...examples] }) });
}

/** Text that is empty unless written. */
export function optionalText(description: string, rules: TextRules = {}) {
  return Type.String({ description, default: "", ...rules });
}

/** A boolean, false unless it says otherwise. */
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

/** One of a few words. Without `byDefault` it must be written. */
export function choice<const V extends string>(description: string, values: readonly V[], byDefault?: NoInfer<V>) {
  return Type.Unsafe<V>({
    type: "string",
    description,
    enum: [...values],
    ...(byDefault === undefined ? {} : { default: byDefault }),
  });
}

/** The same field with null, which is also its default. */
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

/** A list that is empty unless written; with `minItems` it must be written. */
export function list<S extends TSchema>(description: string, items: S, rules: ListRules<Static<S>> = {}) {
  const { default: byDefault = [], ...bounds } = rules;
  const filled = rules.minItems === undefined ? { default: [...byDefault] } : {};
  return Type.Array(items, { description, ...filled, maxItems: entriesMax, ...bounds });
}

/** A list of non-empty texts. */
export function texts(description: string, rules: ListRules<string> = {}) {
  return list(description, Type.String({ minLength: 1 }), rules);
}

/** Names of tools, or globs over them with `*` and `?`. */
export function toolGlobs(description: string, rules: ListRules<string> = {}) {
  return list(`${description} Names or globs with * and ?.`, Type.String({ minLength: 1, maxLength: 256 }), rules);
}

/** An object that takes no other keys and must be written. */
export function closed<P extends TProperties>(description: string, properties: P) {
  return Type.Object(properties, { description, additionalProperties: false });
}

/** An object that takes no other keys; left out, it has the defaults of its fields. */
export function section<P extends TProperties>(description: string, properties: P) {
  return Type.Object(properties, { description, additionalProperties: false, default: {} });
}

/** A map with free keys and values of one kind, empty unless written. */
export function mapOf<S extends TSchema>(description: string, values: S, maxProperties = entriesMax) {
  return Type.Unsafe<Record<string, Static<S>>>({
    type: "object",
    description,
    additionalProperties: values,
    maxProperties,
    default: {},
  });
}

/** A JSON object that is not looked into, null unless written. */
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

/** Whether a failure of the tool ends the run. */
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

/** Where a text lies in the object store, below the prompts of the tenant. */
export function objectKey(description: string) {
  return text(description, {
    maxLength: 512,
    pattern: `^${keySegment}(?:/${keySegment})*$`,
    patternHelp:
      "must be segments of letters, digits, . _ ~ and - with / between them, none of them . or .. or longer than 200",
  });
}
