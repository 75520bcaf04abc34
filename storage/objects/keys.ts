import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";

/** Characters of a key, and of one of its segments: what every file system and cloud store takes. */
const keyCharsMax = 900;
const segmentCharsMax = 200;

const segment = /^[A-Za-z0-9._~-]+$/;

/** Whether a name can be one segment of a key. */
export function isSegment(name: string): boolean {
  return name.length <= segmentCharsMax && name !== "." && name !== ".." && segment.test(name);
}

/** Refuses with invalid_path what is not a key: segments of letters, digits and `.` `_` `~` `-`, parted by single slashes. */
export function checkKey(key: string): void {
  if (key.length > keyCharsMax || !key.split("/").every(isSegment)) throw new SvcError("invalid_path");
}

/** Refuses with invalid_path what no key begins with. The last segment may be cut anywhere, or be empty. */
export function checkPrefix(prefix: string): void {
  const parts = prefix.split("/");
  const last = parts.pop() as string;
  if (prefix.length > keyCharsMax || !parts.every(isSegment) || !(last === "" || /^[A-Za-z0-9._~-]{1,200}$/.test(last)))
    throw new SvcError("invalid_path");
}

/**
 * The segment of a key that is a tenant's alone. Ids of other characters than letters, digits, `.` and `-` are spelled with `~` and
 * hexadecimal digits.
 */
export function tenantSegment(tenantId: string): string {
  const spelled = tenantId.replaceAll(/[^A-Za-z0-9.-]/gu, spellOut);
  // No spelling has two ~ in a row.
  if (spelled.length > segmentCharsMax) return `~~${createHash("sha256").update(tenantId).digest("hex")}`;
  return spelled === "." || spelled === ".." ? spelled.replaceAll(".", spellOut) : spelled;
}

function spellOut(character: string): string {
  return [...Buffer.from(character)].map((byte) => `~${byte.toString(16).padStart(2, "0")}`).join("");
}
