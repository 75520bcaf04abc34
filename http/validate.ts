import type { ErrorObject, ValidateFunction } from "ajv";
import type { TSchema } from "typebox";
import { SvcError } from "../bus/errors.ts";
import { offered } from "../bus/nearest.ts";
import { createAjv, problemsMax } from "../bus/schema-validator.ts";

// Requests are held against the schemas of their route. Validators are made at the first request of a route and kept: making
// all of them would be most of the time of a start.

// Made at once: the first request would wait for Ajv to be loaded.
const ajv = createAjv({ strict: false, useDefaults: true, ownProperties: true, discriminator: false, verbose: true });
const validators = new WeakMap<TSchema, ValidateFunction>();

/** The value with the schema's defaults filled in. Refuses with invalid_request, naming the first fields that do not fit. */
export function validate(schema: TSchema, value: unknown, place: "body" | "query" | "path"): unknown {
  const check = validatorOf(schema);
  if (check(value)) return value;
  // Of a field that may be null it is told why the value does not fit: not that it is not null, nor that no alternative fits.
  const errors = (check.errors ?? []).filter(({ keyword, params }) => keyword !== "anyOf" && params.type !== "null");
  const told = oneForEachPlace(errors).slice(0, problemsMax);
  throw new SvcError("invalid_request", { detail: told.map((error) => describe(error, place)) });
}

/** Throws when requests cannot be held against the schema. Of svc's own the tests know it. */
export function refuseNoSchema(schema: TSchema): void {
  if ("$async" in validatorOf(schema)) throw new Error("what is looked at later is not waited for");
}

function validatorOf(schema: TSchema): ValidateFunction {
  let check = validators.get(schema);
  if (!check) {
    check = ajv.compile(schema);
    validators.set(schema, check);
  }
  return check;
}

/**
 * The query as the schema's types. A parameter that stands twice is refused, for readers differ in which of the two they take.
 * Parameters that the route does not know are ignored.
 */
export function readQuery(schema: TSchema, query: string): Record<string, unknown> {
  const { properties } = schema as unknown as { properties: Record<string, { type?: string }> };
  const values: Record<string, unknown> = {};
  if (query === "") return validate(schema, values, "query") as Record<string, unknown>;
  const parameters = new URLSearchParams(query);
  for (const name of Object.keys(properties)) {
    const all = parameters.getAll(name);
    if (all.length > 1) throw invalid("query", name, "is there more than once", "repeated");
    const [value] = all;
    if (value === undefined) continue;
    values[name] =
      properties[name]?.type === "integer"
        ? readInteger(name, value)
        : properties[name]?.type === "boolean"
          ? readBoolean(name, value)
          : value;
  }
  return validate(schema, values, "query") as Record<string, unknown>;
}

function readInteger(name: string, value: string): number {
  if (!/^-?\d{1,16}$/.test(value)) throw invalid("query", name, "must be an integer", "type_error");
  return Number(value);
}

function readBoolean(name: string, value: string): boolean {
  if (value !== "true" && value !== "false") throw invalid("query", name, "must be true or false", "type_error");
  return value === "true";
}

function invalid(place: string, name: string, msg: string, type: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: [place, name], msg: `${name} ${msg}`, type }] });
}

/**
 * The errors in their order, but of those that say what else might have stood in one place (an alternative each) only the first, with
 * what all of them say.
 */
function oneForEachPlace(errors: readonly ErrorObject[]): ErrorObject[] {
  const places = new Map<string, ErrorObject[]>();
  for (const error of errors)
    if (namesAlternative(error)) {
      const place = places.get(error.instancePath);
      if (place) place.push(error);
      else places.set(error.instancePath, [error]);
    }
  return errors.flatMap((error) => {
    const place = places.get(error.instancePath);
    if (!place || !namesAlternative(error)) return [error];
    return place[0] === error ? [alternatives(place)] : [];
  });
}

function namesAlternative({ keyword }: ErrorObject): boolean {
  return keyword === "type" || keyword === "const" || keyword === "enum";
}

/** One error of all that may stand in the place of the given ones, which is the same. */
function alternatives(errors: readonly ErrorObject[]): ErrorObject {
  const values = new Set<unknown>();
  const types = new Set<string>();
  for (const { parentSchema = {}, params } of errors) {
    if (parentSchema.const !== undefined) values.add(parentSchema.const);
    else if (parentSchema.enum) for (const value of parentSchema.enum) values.add(value);
    else for (const type of [params.type].flat()) types.add(type);
  }
  const words = [...values].map((value) => JSON.stringify(value));
  const [first] = errors as [ErrorObject];
  if (words.length === 0) return { ...first, message: `must be ${either([...types])}` };
  const one = words.length === 1 ? `${words[0]}` : `one of ${words.join(", ")}`;
  return {
    ...first,
    keyword: words.length === 1 ? "const" : "enum",
    message: `must be ${either([one, ...types])}`,
  };
}

function either(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

function describe(error: ErrorObject, place: string) {
  const path = error.instancePath.split("/").slice(1).map(unescapePointer);
  switch (error.keyword) {
    case "additionalProperties": {
      const name = String(error.params.additionalProperty);
      const whole = path.length === 0 ? "this request" : path.join(".");
      const known = offered(name, Object.keys(error.parentSchema?.properties ?? {}));
      const msg = `${name} is not a field of ${whole}${known === "" ? "" : `.${known}`}`;
      return { loc: [place, ...path, name], msg, type: "extra_forbidden" };
    }
    case "required":
      return {
        loc: [place, ...path, error.params.missingProperty],
        msg: `${error.params.missingProperty} is required`,
        type: "missing",
      };
    default:
      return {
        loc: [place, ...path],
        msg: `${nameOf(path) ?? place} ${error.message ?? "does not fit"}`,
        type: error.keyword,
      };
  }
}

/** What a place is called: the field, and the number in it of what stands in a list. */
function nameOf(path: readonly (string | number)[]): string | undefined {
  const field = path.findLastIndex((part) => typeof part === "string");
  return path.length === 0 ? undefined : path.slice(Math.max(0, field)).join(".");
}

function unescapePointer(part: string): string | number {
  if (/^\d+$/.test(part)) return Number(part);
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
