import type { ErrorObject, ValidateFunction } from "ajv";
import type { Env } from "../bus/env.ts";
import { lazily } from "../bus/lazily.ts";
import { ajvPackage } from "../bus/schema-validator.ts";
import type { ToolSpec } from "../manifests/registries.ts";
import { compiledSchema } from "./compiled-schema.ts";
import { type Misfit, schemaMisfit } from "./schema-walk.ts";

/** Returns why the arguments do not match the tool's schema, in words for the model; null if they match. */
export async function argumentsProblem(
  { parameters }: Pick<ToolSpec, "parameters">,
  args: unknown,
  env: Pick<Env, "defer">,
): Promise<string | null> {
  if (typeof args !== "object" || args === null || Array.isArray(args)) return "the arguments are not an object";
  const { root } = compiledSchema(parameters);
  const misfit = root === null ? foreignMisfit(parameters, args) : await schemaMisfit(root, args, env);
  return misfit === null ? null : describe(misfit);
}

/** Throws if the parameters of a plugin's tool are not a schema that can be compiled. */
export function refuseNoParameters({ parameters }: Pick<ToolSpec, "parameters">): void {
  if (compiledSchema(parameters).root === null) validatorOf(parameters);
}

/** Validates against schemas of plugins, which may use any keyword. `format` is an annotation and is not checked. */
const ajv = lazily(
  () => new (ajvPackage().Ajv)({ strict: false, validateFormats: false, validateSchema: false, ownProperties: true }),
);
const validators = new WeakMap<object, ValidateFunction>();

function foreignMisfit(parameters: object, args: unknown): Misfit | null {
  const validate = validatorOf(parameters);
  if (validate(args)) return null;
  const { instancePath = "", keyword = "", message = "", params = {} } = (validate.errors?.[0] ?? {}) as ErrorObject;
  const about = params.missingProperty ?? params.additionalProperty ?? params.allowedValues;
  return { path: instancePath.split("/").slice(1), keyword, message, about };
}

function validatorOf(parameters: object): ValidateFunction {
  let validate = validators.get(parameters);
  if (validate === undefined) {
    validate = ajv().compile(parameters);
    // Ajv caches a schema for ever. The WeakMap above caches the validator instead, for as long as the tool exists.
    ajv().removeSchema(parameters);
    validators.set(parameters, validate);
  }
  return validate;
}

/** Max characters of a field name or of the allowed values in a message to the model. */
const shownMax = 1_000;

/** Returns a sentence that begins with the field: `edits.0.old_string must NOT have …`. */
function describe({ path, keyword, message, about }: Misfit): string {
  const field = path.join(".");
  const under = (name: unknown) => (field === "" ? String(name) : `${field}.${name}`);
  if (keyword === "steps") return `the value ${message}`;
  if (keyword === "required") return `${under(about)} is missing`;
  if (keyword === "additionalProperties")
    return `${under(String(about).slice(0, 100))} is not an argument of this tool`;
  if (keyword === "enum") return `${field} must be one of ${(about as unknown[]).join(", ").slice(0, shownMax)}`;
  return `${field || "the value"} ${message}`;
}
