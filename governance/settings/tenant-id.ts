/**
 * True if the text is a valid tenant id. An id is part of thread ids, object keys, directories and log lines. It therefore
 * excludes their separators, invisible characters, `.`, `..`, and `*`, which means all tenants.
 */
export function isTenantId(text: string): boolean {
  return /^[^\s:#/\\\p{C}]{1,128}$/u.test(text) && text !== "." && text !== ".." && text !== "*";
}

const rule = "a tenant id has 1 to 128 visible characters without : # / and \\";

/** Returns the text if it is a valid tenant id; otherwise throws an Error with the rule. */
export function readTenantId(text: string): string {
  if (!isTenantId(text)) throw new Error(rule);
  return text;
}
