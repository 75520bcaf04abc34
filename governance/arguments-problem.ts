import type { ErrorObject, ValidateFunction } from "ajv";
import { lazily } from "../bus/lazily.ts";
import { ajvPackage } from "../bus/schema-validator.ts";
import type { ToolSpec } from "../manifests/registries.ts";

/** What is wrong with arguments as a value, in words for the model; null when they fit their tool. */
export function argumentsProblem(tool: Pick<ToolSpec, "parameters">, args: unknown): string | null {
  if (typeof args !== "object" || args === null || Array.isArray(args)) return "the arguments are not an object";
  const validate = validatorOf(tool);
  return validate(args) ? null : describe(validate.errors?.[0]);
}

/** Also for schemas of manifests: those are held against what is carried out when they are compiled, and formats are notes. */
const ajv = lazily(
  () => new (ajvPackage().Ajv)({ strict: false, validateFormats: false, validateSchema: false, ownProperties: true }),
);
const validators = new WeakMap<object, ValidateFunction>();

function validatorOf(tool: Pick<ToolSpec, "parameters">): ValidateFunction {
  let validate = validators.get(tool.parameters);
  if (validate === undefined) {
    validate = ajv().compile(tool.parameters);
    // Ajv would keep the schema for ever; it is ours to forget when its tool is gone.
    ajv().removeSchema(tool.parameters);
    validators.set(tool.parameters, validate);
  }
  return validate;
}

/** The first error as a sentence that begins with the field: `edits.0.old_string must NOT have …`. */
function describe(error: ErrorObject | undefined): string {
  const field = (error?.instancePath ?? "").slice(1).replaceAll("/", ".");
  const under = (name: unknown) => (field === "" ? String(name) : `${field}.${name}`);
  if (error?.keyword === "required") return `${under(error.params.missingProperty)} is missing`;
  if (error?.keyword === "additionalProperties")
    return `${under(String(error.params.additionalProperty).slice(0, 100))} is not an argument of this tool`;
  if (error?.keyword === "enum") return `${field} must be one of ${error.params.allowedValues.join(", ")}`;
  return `${field || "the value"} ${error?.message ?? "does not fit"}`;
}
