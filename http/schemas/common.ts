import type { TSchema } from "typebox";
import { Type } from "../../bus/type.ts";

/** A point in time. */
export const EpochMs = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Epoch milliseconds.",
});

/** An object whose keys are nobody's business here. */
export const OpenObject = Type.Object({}, { additionalProperties: true });

/** The schema, or null. */
export function nullable<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}
