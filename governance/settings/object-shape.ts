/** The document as an object with only these keys, `required` among them. Throws an Error that begins with `where`. */
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
  // The key itself is not repeated: in a document of secrets, a misplaced secret may be what stands there.
  if (Object.keys(object).some((key) => !known.includes(key))) {
    throw new Error(`${where} has a key other than ${known.join(", ")}`);
  }
  return object;
}

/** The document as an object with any keys. */
export function readMap(document: unknown, where: string): Record<string, unknown> {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    throw new Error(`${where} must be a JSON object`);
  }
  return document as Record<string, unknown>;
}

/** The value when it is a text with something in it. Throws what it must be, after `where`. */
export function readString(value: unknown, where: string): string {
  if (typeof value !== "string" || value === "") throw new Error(`${where} must be a non-empty string`);
  return value;
}

/** The value when it is a number in the range. Throws what it must be, after `where`. */
export function readNumberField(value: unknown, where: string, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < least || value > most) {
    throw new Error(`${where} must be a number from ${least} to ${most}`);
  }
  return value;
}

/** The value when it is a whole number in the range. Throws what it must be, after `where`. */
export function readIntegerField(value: unknown, where: string, least: number, most: number): number {
  if (!Number.isInteger(value)) throw new Error(`${where} must be a whole number from ${least} to ${most}`);
  return readNumberField(value, where, least, most);
}

/** The value when it is a list of texts with something in each. Throws what it must be, after `where`. */
export function readStrings(value: unknown, where: string): readonly string[] {
  if (!Array.isArray(value) || value.some((item) => typeof item !== "string" || item === "")) {
    throw new Error(`${where} must be a list of non-empty strings`);
  }
  return value as string[];
}
