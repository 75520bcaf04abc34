import type { TSchema } from "typebox";
import { Type } from "../../bus/type.ts";
import { noon } from "./example-values.ts";

/** The bounds of a point in time, in milliseconds. */
export const epochRange = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

/** Returns the schema of a point in time, in milliseconds, with this example. */
export function epochMs(example: number) {
  return Type.Integer({ ...epochRange, description: "Epoch milliseconds.", examples: [example] });
}

/** A point in time, in milliseconds. */
export const EpochMs = epochMs(noon);

/** An object with any fields. */
export const OpenObject = Type.Object({}, { additionalProperties: true });

/** Returns the union of the schema and null. */
export function nullable<T extends TSchema>(schema: T, options: { readonly examples?: readonly unknown[] } = {}) {
  return Type.Union([schema, Type.Null()], options);
}
