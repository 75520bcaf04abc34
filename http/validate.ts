import type { ErrorObject, ValidateFunction } from "ajv";
import type { TSchema } from "typebox";
import { SvcError } from "../bus/errors.ts";
import { createAjv, problemsMax } from "../bus/schema-validator.ts";

// Requests are held against the schemas of their route. Validators are made at the first request of a route and kept: making
// all of them would be most of the time of a start.

const ajv = createAjv({ strict: false, useDefaults: true, ownProperties: true, discriminator: false });
const validators = new WeakMap<TSchema, ValidateFunction>();

/** The value with the schema's defaults filled in. Refuses with invalid_request, naming the first fields that do not fit. */
export function validate(schema: TSchema, value: unknown, place: "body" | "query" | "path"): unknown {
  let check = validators.get(schema);
  if (!check) {
    check = ajv.compile(schema);
    validators.set(schema, check);
  }
  if (check(value)) return value;
  // Of a field that may be null it is told why the value does not fit: not that it is not null, nor that no alternative fits.
  const errors = (check.errors ?? []).filter(({ keyword, params }) => keyword !== "anyOf" && params.type !== "null");
  const detail = errors.slice(0, problemsMax).map((error) => describe(error, place));
  throw new SvcError("invalid_request", { detail });
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

function describe(error: ErrorObject, place: string) {
  const path = error.instancePath.split("/").slice(1).map(unescapePointer);
  switch (error.keyword) {
    case "additionalProperties":
    case "unevaluatedProperties": {
      const name = String(error.params.additionalProperty ?? error.params.unevaluatedProperty);
      return { loc: [place, ...path, name], msg: `${name} is not a field of this request`, type: "extra_forbidden" };
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
        msg: `${path.at(-1) ?? place} ${error.message ?? "does not fit"}`,
        type: error.keyword,
      };
  }
}

function unescapePointer(part: string): string | number {
  if (/^\d+$/.test(part)) return Number(part);
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
