import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";

/** Max characters of a key, a limit that every file system and cloud store accepts. */
const keyCharsMax = 900;
/** Max characters of one segment. */
const segmentCharsMax = 200;

const segment = /^[A-Za-z0-9._~-]+$/;

/** True if the name can be one segment of a key. */
export function isSegment(name: string): boolean {
  return name.length <= segmentCharsMax && name !== "." && name !== ".." && segment.test(name);
}

/** True if the text is a key: segments of letters, digits and `.` `_` `~` `-`, separated by single slashes. */
export function isKey(key: string): boolean {
  return key.length <= keyCharsMax && key.split("/").every(isSegment);
}

/** Refuses with invalid_path unless the text is a key. */
export function checkKey(key: string): void {
  if (!isKey(key)) throw new SvcError("invalid_path");
}

/** Refuses with invalid_path a text that no key can begin with. The last segment may be partial or empty. */
export function checkPrefix(prefix: string): void {
  const parts = prefix.split("/");
  const last = parts.pop() as string;
  if (prefix.length > keyCharsMax || !parts.every(isSegment) || !(last === "" || /^[A-Za-z0-9._~-]{1,200}$/.test(last)))
    throw new SvcError("invalid_path");
}

/**
 * Returns a key segment that is unique to the tenant. Characters other than letters, digits, `.` and `-` become `~` and
 * hexadecimal digits.
 */
export function tenantSegment(tenantId: string): string {
  const spelled = tenantId.replaceAll(/[^A-Za-z0-9.-]/gu, spellOut);
  // No other encoding contains two consecutive ~.
  if (spelled.length > segmentCharsMax) return `~~${createHash("sha256").update(tenantId).digest("hex")}`;
  return spelled === "." || spelled === ".." ? spelled.replaceAll(".", spellOut) : spelled;
}

function spellOut(character: string): string {
  return [...Buffer.from(character)].map((byte) => `~${byte.toString(16).padStart(2, "0")}`).join("");
}
