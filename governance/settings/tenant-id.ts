/**
 * Whether a text may name a tenant. It becomes part of thread ids, object keys, directories and log lines, so it has none of the
 * characters that separate parts there, nothing invisible, and is neither a directory entry of its own nor `*`, which means all.
 */
export function isTenantId(text: string): boolean {
  return /^[^\s:#/\\\p{C}]{1,128}$/u.test(text) && text !== "." && text !== ".." && text !== "*";
}

const rule = "a tenant id has 1 to 128 visible characters without : # / and \\";

/** The text as a tenant's id; throws an Error that says the rule. */
export function readTenantId(text: string): string {
  if (!isTenantId(text)) throw new Error(rule);
  return text;
}
