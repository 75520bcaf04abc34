/**
 * Returns the document as an object with only these keys, including all `required` ones. Throws an Error that begins with
 * `where`.
 */
export function readObject(
  document: unknown,
  where: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Record<string, unknown> {
  const object = readMap(document, where);
  for (const key of required) {
    if (!Object.hasOwn(object, key)) throw new Error(`${where}: ${key} is missing`);
  }
  const known = [...required, ...optional];
  // Do not repeat the key: in a document of secrets it may be a misplaced secret.
  if (Object.keys(object).some((key) => !known.includes(key))) {
    throw new Error(`${where} has a key other than ${known.join(", ")}`);
  }
  return object;
}

/** Returns the document as an object with any keys. */
export function readMap(document: unknown, where: string): Record<string, unknown> {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    throw new Error(`${where} must be a JSON object`);
  }
  return document as Record<string, unknown>;
}

/** Returns the value if it is a non-empty string. Throws an Error that begins with `where`. */
export function readString(value: unknown, where: string): string {
  if (typeof value !== "string" || value === "") throw new Error(`${where} must be a non-empty string`);
  return value;
}

/** Returns the value if it is a number in the range. Throws an Error that begins with `where`. */
export function readNumberField(value: unknown, where: string, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < least || value > most) {
    throw new Error(`${where} must be a number from ${least} to ${most}`);
  }
  return value;
}

/** Returns the value if it is an integer in the range. Throws an Error that begins with `where`. */
export function readIntegerField(value: unknown, where: string, least: number, most: number): number {
  if (!Number.isInteger(value)) throw new Error(`${where} must be a whole number from ${least} to ${most}`);
  return readNumberField(value, where, least, most);
}

/** Returns the value if it is a list of non-empty strings. Throws an Error that begins with `where`. */
export function readStrings(value: unknown, where: string): readonly string[] {
  if (!Array.isArray(value) || value.some((item) => typeof item !== "string" || item === "")) {
    throw new Error(`${where} must be a list of non-empty strings`);
  }
  return value as string[];
}
