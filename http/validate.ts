import type { ErrorObject, ValidateFunction } from "ajv";
import type { TSchema } from "typebox";
import { SvcError } from "../bus/errors.ts";
import { offered } from "../bus/nearest.ts";
import { createAjv, problemsMax } from "../bus/schema-validator.ts";

// Validates requests against the schemas of their route. Validators are compiled at a route's first request and cached, because compiling
// all of them would take most of the start time.

// Created at import, so that the first request does not wait for Ajv to load.
const ajv = createAjv({ strict: false, useDefaults: true, ownProperties: true, discriminator: false, verbose: true });
const validators = new WeakMap<TSchema, ValidateFunction>();

/** Returns the value with the schema's defaults filled in. Refuses with invalid_request, which names the first invalid fields. */
export function validate(schema: TSchema, value: unknown, place: "body" | "query" | "path"): unknown {
  const check = validatorOf(schema);
  if (check(value)) return value;
  // For a nullable field, report why the value is invalid, and not that it is not null or that no alternative matches.
  const errors = (check.errors ?? []).filter(({ keyword, params }) => keyword !== "anyOf" && params.type !== "null");
  const told = oneForEachPlace(errors).slice(0, problemsMax);
  throw new SvcError("invalid_request", { detail: told.map((error) => describe(error, place)) });
}

/** Throws if the schema cannot validate requests. Plugins may bring such schemas; tests check svc's own. */
export function refuseNoSchema(schema: TSchema): void {
  if ("$async" in validatorOf(schema)) throw new Error("$async schemas are not supported");
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
 * Returns the query in the types of the schema. Refuses a repeated parameter, because parsers differ in the one they pick. Ignores unknown
 * parameters.
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

/** Returns the errors in order. Errors that each name an alternative for the same field become one error that names all alternatives. */
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

/** Merges errors about the same field into one that names all alternatives. */
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

/** Returns the name of a path: the last field, with an index if the value is in a list. */
function nameOf(path: readonly (string | number)[]): string | undefined {
  const field = path.findLastIndex((part) => typeof part === "string");
  return path.length === 0 ? undefined : path.slice(Math.max(0, field)).join(".");
}

function unescapePointer(part: string): string | number {
  if (/^\d+$/.test(part)) return Number(part);
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
