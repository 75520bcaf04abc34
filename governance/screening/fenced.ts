import { createHash } from "node:crypto";

/**
 * Returns a text as data that a model should not obey, with a note. The text cannot contain its own boundary, which is a hash of
 * it.
 */
export function fenced(text: string, note: string): string {
  const mark = createHash("sha256").update(text).digest("hex").slice(0, 12);
  return `[${note}]\n<data-${mark}>\n${text}\n</data-${mark}>`;
}
