import { hash } from "node:crypto";

/**
 * The form of a credential: visible ASCII without quotes, commas, backslashes, brackets and braces. This excludes lists and
 * objects that a faulty client turned into text.
 */
const tokenForm = /^[\x21\x23-\x26\x28-\x2b\x2d-\x5a\x5e-\x7a\x7c\x7e]+$/;
/** Words that faulty clients send if they have no token. */
const notTokens = new Set(["null", "undefined", "none", "nan", "true", "false"]);

/** Longer texts are rejected. A JWT with many claims is below 4 KiB. */
const tokenCharsMax = 8192;

/** True if the text has the form of a token; checked before any other use. */
export function isToken(text: string): boolean {
  return text.length <= tokenCharsMax && tokenForm.test(text) && !notTokens.has(text.toLowerCase());
}

/** Returns the hash under which a token is stored and looked up, so that lookup time reveals nothing about the token. */
export function hashToken(token: string): string {
  return hash("sha256", token, "hex");
}
