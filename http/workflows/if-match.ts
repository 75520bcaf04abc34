import { SvcError } from "../../bus/errors.ts";
import type { IfMatch } from "../../bus/protocol/workflow.ts";

/** Reads an If-Match header: revisions in quotes, or `*`. Refuses other forms with invalid_header. */
export function readIfMatch(header: string | undefined): IfMatch {
  if (header === undefined) return null;
  const text = header.trim();
  if (text === "*") return "any";
  const tags = text.split(",").map((tag) => /^\s*"(\d{1,15})"\s*$/.exec(tag)?.[1]);
  if (tags.some((tag) => tag === undefined))
    throw new SvcError("invalid_header", { message: 'If-Match is *, or revisions in quotes such as "3".' });
  return tags.map(Number);
}

/** Returns the ETag of a revision. */
export function etagOf(revision: number): string {
  return `"${revision}"`;
}
