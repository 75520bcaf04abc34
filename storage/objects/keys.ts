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
