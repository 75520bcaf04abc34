import type { ErrorObject, ValidateFunction } from "ajv";
import { createAjv, problemsMax } from "../bus/schema-validator.ts";
import { crossFieldProblems } from "./cross-field.ts";
import { type Path, type Problem, refuseProblems, writePath } from "./problems.ts";
import { copyJson, readText } from "./read-source.ts";
import { type Manifest, manifestSchema } from "./schema/manifest.ts";

/**
 * A manifest from YAML or JSON text, or from a value that was parsed already; every default is filled in and `source` stays as
 * it is. Throws invalid_manifest with all problems of the first stage that has any: text, fields, fields against each other.
 */
export function parseManifest(source: unknown): Manifest {
  const draft = copyJson(typeof source === "string" ? readText(source) : source);
  validate ??= compileSchema();
  if (!validate(draft)) {
    const errors = validate.errors ?? [];
    refuseProblems(errors.slice(0, problemsMax).map((error) => describe(error, draft)));
  }
  const manifest = draft as Manifest;
  refuseProblems(crossFieldProblems(manifest));
  return manifest;
}

/** Compiling takes some 90 ms and 15 MiB, so it waits for the first manifest of the thread. */
let validate: ValidateFunction | undefined;

function compileSchema(): ValidateFunction {
  const ajv = createAjv({
    useDefaults: true,
    verbose: true,
    strict: true,
    allowUnionTypes: true,
    // Without these two, compiling takes twice the time and memory. A test holds the schema against its own schema.
    validateSchema: false,
    code: { optimize: false },
  });
  ajv.addVocabulary(["patternHelp"]);
  return ajv.compile(manifestSchema);
}

function describe(error: ErrorObject, draft: unknown): Problem {
  const loc = pathOf(error.instancePath, draft);
  const { params, parentSchema } = error;
  const field = writePath(loc);
  switch (error.keyword) {
    case "additionalProperties": {
      const key = String(params.additionalProperty);
      return { loc: [...loc, key], msg: `${key} is not a field of ${field}.`, type: "extra_forbidden" };
    }
    case "required": {
      const at = [...loc, String(params.missingProperty)];
      return { loc: at, msg: `${writePath(at)} is required.`, type: "missing" };
    }
    case "type":
      return { loc, msg: `${field} must be ${typeWords(params.type, error.data)}.`, type: "type_error" };
    case "enum":
      return { loc, msg: `${field} must be one of ${valueWords(params.allowedValues)}.`, type: "enum" };
    case "maxLength":
      return { loc, msg: `${field} must have at most ${params.limit} characters.`, type: "too_long" };
    case "minLength":
      return { loc, msg: `${field} must have at least ${params.limit} characters.`, type: "too_short" };
    case "maxItems":
    case "maxProperties":
      return { loc, msg: `${field} must have at most ${params.limit} entries.`, type: "too_long" };
    case "minItems":
      return { loc, msg: `${field} must have at least ${params.limit} entries.`, type: "too_short" };
    case "pattern":
      return { loc, msg: `${field} ${parentSchema?.patternHelp}.`, type: "pattern" };
    case "minimum":
      return { loc, msg: `${field} must be at least ${params.limit}.`, type: "out_of_range" };
    case "exclusiveMinimum":
      return { loc, msg: `${field} must be above ${params.limit}.`, type: "out_of_range" };
    case "maximum":
      return { loc, msg: `${field} must be at most ${params.limit}.`, type: "out_of_range" };
    default:
      throw new Error(`the schema uses ${error.keyword}, which has no words here`);
  }
}

/** A JSON pointer as a path; what is a list index is known from the value alone. */
function pathOf(pointer: string, draft: unknown): Path {
  const loc: (string | number)[] = [];
  let value = draft;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    loc.push(Array.isArray(value) ? Number(key) : key);
    value = (value as Record<string, unknown>)[key];
  }
  return loc;
}

const typeNames: Record<string, string> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  object: "an object",
  array: "a list",
  null: "null",
};

function typeWords(types: string | string[], value: unknown): string {
  const words = [types].flat().map((type) => typeNames[type] ?? type);
  const unquoted = words.includes("text") && (typeof value === "number" || typeof value === "boolean");
  return words.join(" or ") + (unquoted ? "; put it in quotes" : "");
}

function valueWords(values: readonly (string | null)[]): string {
  return values.map((value) => value ?? "null").join(", ");
}
