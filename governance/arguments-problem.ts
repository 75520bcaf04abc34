import type { ErrorObject, ValidateFunction } from "ajv";
import type { Env } from "../bus/env.ts";
import { lazily } from "../bus/lazily.ts";
import { ajvPackage } from "../bus/schema-validator.ts";
import type { ToolSpec } from "../manifests/registries.ts";
import { compiledSchema } from "./compiled-schema.ts";
import { type Misfit, schemaMisfit } from "./schema-walk.ts";

/** What is wrong with arguments as a value, in words for the model; null when they fit their tool. */
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

/** Throws when nothing can be held against the parameters of a plugin's tool. */
export function refuseNoParameters({ parameters }: Pick<ToolSpec, "parameters">): void {
  if (compiledSchema(parameters).root === null) validatorOf(parameters);
}

/** Of schemas of plugins, which may have any keyword. Formats are notes. */
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
    // Ajv would keep the schema for ever; it is ours to forget when its tool is gone.
    ajv().removeSchema(parameters);
    validators.set(parameters, validate);
  }
  return validate;
}

/** Characters of the field and of what is allowed there that the model is told. */
const shownMax = 1_000;

/** A sentence that begins with the field: `edits.0.old_string must NOT have …`. */
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
