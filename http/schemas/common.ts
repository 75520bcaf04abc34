import type { TSchema } from "typebox";
import { Type } from "../../bus/type.ts";

/** A point in time, in milliseconds. */
export const EpochMs = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Epoch milliseconds.",
});

/** An object with any fields. */
export const OpenObject = Type.Object({}, { additionalProperties: true });

/** Returns the union of the schema and null. */
export function nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}
