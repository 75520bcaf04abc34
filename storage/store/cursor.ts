import { SvcError } from "../../bus/errors.ts";

/** Encodes a position in a list for the client: the sort key of the last row. */
export function writeCursor(key: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(key)).toString("base64url");
}

/** Max characters of a cursor. */
const cursorCharsMax = 2048;

/**
 * Decodes the sort key of a cursor, with parts of the types in `shape`. Refuses with invalid_cursor a text that
 * `writeCursor` did not produce.
 */
export function readCursor<const Shape extends readonly ("string" | "number")[]>(
  text: string,
  shape: Shape,
): CursorKey<Shape> {
  const key = text.length > cursorCharsMax ? null : parse(text);
  const fits =
    Array.isArray(key) &&
    key.length === shape.length &&
    key.every((part, i) => typeof part === shape[i] && (typeof part === "string" || Number.isSafeInteger(part)));
  if (!fits || writeCursor(key) !== text) throw new SvcError("invalid_cursor");
  return key as CursorKey<Shape>;
}

type CursorKey<Shape extends readonly ("string" | "number")[]> = {
  -readonly [Place in keyof Shape]: Shape[Place] extends "string" ? string : number;
};

function parse(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch {
    return null;
  }
}
