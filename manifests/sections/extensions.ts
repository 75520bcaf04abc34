import type { ErrorObject, ValidateFunction } from "ajv";
import type { TSchema } from "typebox";
import { createAjv } from "../../bus/schema-validator.ts";
import { Type } from "../../bus/type.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  extensions: Type.Unsafe<Record<string, unknown>>({
    type: "object",
    description: "Values for plugins, a key for each. A plugin may have a schema for its own.",
    default: {},
  }),
};

const validators = new WeakMap<TSchema, ValidateFunction>();

/** Returns the validator of a schema. It is compiled once, for the first manifest that needs it. */
function validatorOf(schema: TSchema): ValidateFunction {
  let validator = validators.get(schema);
  if (validator === undefined) {
    validator = createAjv({ strict: false, logger: false }).compile(schema);
    validators.set(schema, validator);
  }
  return validator;
}

export const extensions = defineSection({
  fields,
  compile({ extensions: written }: SpecOf<typeof fields>, { registries, refuse }) {
    for (const [name, value] of Object.entries(written)) {
      const schema = registries.extensions?.get(name);
      if (schema === undefined) continue;
      const validator = validatorOf(schema);
      if (validator(value)) continue;
      for (const error of validator.errors ?? [])
        refuse(["spec", "extensions", name, ...pathOf(error)], saysOf(error), "type_error");
    }
    return null;
  },
});

function pathOf({ instancePath }: ErrorObject): string[] {
  return instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function saysOf({ message = "is not as the plugin takes it" }: ErrorObject): string {
  return message;
}
