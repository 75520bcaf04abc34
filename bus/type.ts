import type { TSchema, Type as TypeBox } from "typebox";

/** Marks a property that may be left out; TypeBox has the same mark, so that schemas of both can stand in one another. */
const optionalMark = "~optional";

/**
 * Makes JSON Schemas whose values TypeScript knows, as TypeBox does and with its types. Of its hundreds of builders these are in use,
 * and each is an object literal; loading the package takes 110 ms of processor time and 22 MiB in every thread.
 */
export const Type = {
  Array: (items: TSchema, options = {}) => ({ type: "array", items, ...options }),
  Boolean: (options = {}) => ({ type: "boolean", ...options }),
  Enum: (values: unknown, options = {}) => ({ enum: values, ...options }),
  Integer: (options = {}) => ({ type: "integer", ...options }),
  Literal: (value: unknown, options = {}) => ({ type: typeof value, const: value, ...options }),
  Null: (options = {}) => ({ type: "null", ...options }),
  Number: (options = {}) => ({ type: "number", ...options }),
  Object: (properties: Record<string, TSchema>, options = {}) => {
    const required = Object.keys(properties).filter((name) => !Object.hasOwn(properties[name] ?? {}, optionalMark));
    return { type: "object", ...(required.length > 0 && { required }), properties, ...options };
  },
  Optional: (schema: TSchema) => Object.defineProperty({ ...schema }, optionalMark, { value: true }),
  String: (options = {}) => ({ type: "string", ...options }),
  Union: (anyOf: readonly TSchema[], options = {}) => ({ anyOf, ...options }),
  Unknown: (options = {}) => ({ ...options }),
  Unsafe: (schema: TSchema) => ({ ...schema }),
} as unknown as Pick<
  typeof TypeBox,
  | "Array"
  | "Boolean"
  | "Enum"
  | "Integer"
  | "Literal"
  | "Null"
  | "Number"
  | "Object"
  | "Optional"
  | "String"
  | "Union"
  | "Unknown"
  | "Unsafe"
>;
