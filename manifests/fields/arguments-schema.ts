import type { Path } from "../problems.ts";
import { isFilledList, keywordForms } from "../schema-keywords.ts";
import type { Refuse } from "./section.ts";

// Checks the JSON Schema that a manifest declares for a tool's arguments. Unsupported keywords are refused by name, as
// are schemas whose validation could be expensive.

/** A fault of a schema and its position; `says` continues a sentence after the path. */
export interface SchemaFault {
  readonly path: Path;
  readonly says: string;
}

/** Max schemas and enum values of a schema, with references expanded; bounds the work of a validation. */
const sizeMax = 500;

/** Keywords that only inform people and the model. */
const told = new Set([
  ...["title", "description", "default", "examples", "format", "$comment", "deprecated", "readOnly", "writeOnly"],
  "const",
]);
const reference = /^#\/(\$defs|definitions)\/([A-Za-z0-9_.-]{1,100})$/;

type Fields = Readonly<Record<string, unknown>>;

/** Returns the first fault of an arguments schema; null if it is supported. */
export function argumentsSchemaFault(schema: Fields): SchemaFault | null {
  if (schema.type !== "object") return { path: ["type"], says: "must be object" };
  return new Walk(schema).schema(schema, []);
}

/** Refuses the schema of the entry at `loc` if it is not supported; null declares none. */
export function refuseArgsSchema(schema: Fields | null, loc: Path, refuse: Refuse): void {
  const fault = schema === null ? null : argumentsSchemaFault(schema);
  if (fault !== null) refuse([...loc, "args_schema", ...fault.path], fault.says, "unsupported");
}

class Walk {
  readonly #root: Fields;
  #size = 0;

  constructor(root: Fields) {
    this.#root = root;
  }

  schema(value: unknown, path: Path): SchemaFault | null {
    // The count stops recursive references, which may double the size at each step.
    const fault = this.#grow(1, path);
    if (fault !== null || typeof value === "boolean") return fault;
    if (!isFields(value)) return { path, says: "is not a schema" };
    for (const [key, said] of Object.entries(value)) {
      const found = this.#keyword(key, said, [...path, key]);
      if (found !== null) return found;
    }
    return null;
  }

  #keyword(key: string, said: unknown, path: Path): SchemaFault | null {
    const rule = keywordForms.get(key);
    if (rule !== undefined) return rule.fits(said) ? null : { path, says: `is not ${rule.form}` };
    if (told.has(key)) return null;
    switch (key) {
      case "additionalProperties":
      case "items":
      case "not":
        return this.schema(said, path);
      case "anyOf":
      case "allOf":
      case "oneOf":
        return isFilledList(said) ? this.#each([...said.entries()], path) : { path, says: "is not a list of schemas" };
      case "$schema":
        return path.length === 1 && isText(said) ? null : { path, says: "is not a text at the top" };
      case "$defs":
      case "definitions":
        if (path.length > 1) return { path, says: "is only allowed at the top" };
        return this.#each(isFields(said) ? Object.entries(said) : null, path);
      case "properties":
        return this.#each(isFields(said) ? Object.entries(said) : null, path);
      case "$ref":
        return this.#reference(said, path);
      case "enum":
        return isFilledList(said) ? this.#grow(said.length, path) : { path, says: "is not a list of values" };
      default:
        return { path, says: "is not a supported keyword" };
    }
  }

  #reference(said: unknown, path: Path): SchemaFault | null {
    const [, where = "", name = ""] = (isText(said) && reference.exec(said)) || [];
    const definitions = this.#root[where];
    if (isFields(definitions) && Object.hasOwn(definitions, name)) return this.schema(definitions[name], [where, name]);
    return { path, says: "names no entry of $defs or definitions" };
  }

  #each(entries: readonly (readonly [string | number, unknown])[] | null, path: Path): SchemaFault | null {
    if (entries === null) return { path, says: "is not an object of schemas" };
    for (const [key, value] of entries) {
      const fault = this.schema(value, [...path, key]);
      if (fault !== null) return fault;
    }
    return null;
  }

  #grow(by: number, path: Path): SchemaFault | null {
    this.#size += by;
    return this.#size > sizeMax ? { path, says: `makes more than ${sizeMax} parts of the schema` } : null;
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
