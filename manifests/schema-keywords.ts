// The JSON Schema keywords that tenants may use and that contain no schema, with the required form of their values.

/** A form of values; `form` continues a sentence after "is not". */
export interface KeywordForm {
  readonly fits: (value: unknown) => boolean;
  readonly form: string;
}

const types = new Set<unknown>(["null", "boolean", "object", "array", "number", "integer", "string"]);

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown) => typeof value === "number" && Number.isFinite(value);
const isTypes = (value: unknown) =>
  isFilledList(value) && areDifferent(value) && value.every((name) => types.has(name));
const isNames = (value: unknown) =>
  Array.isArray(value) && areDifferent(value) && value.every((name) => typeof name === "string");

/** Keywords that each constrain a value on their own. */
export const keywordForms: ReadonlyMap<string, KeywordForm> = new Map([
  ["type", { fits: (value: unknown) => types.has(value) || isTypes(value), form: "a type, or a list of types" }],
  ["required", { fits: isNames, form: "a list of different names" }],
  ...["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"].map(
    (name) => [name, { fits: isCount, form: "a whole number from 0" }] as const,
  ),
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map(
    (name) => [name, { fits: isNumber, form: "a number" }] as const,
  ),
  ["multipleOf", { fits: (value) => isNumber(value) && (value as number) > 0, form: "a number above 0" }],
]);

/** True if the value is a non-empty list. */
export function isFilledList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.length > 0;
}

function areDifferent(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}
