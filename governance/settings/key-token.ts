import { hash } from "node:crypto";

/**
 * What may be a credential: visible ASCII without quotes, commas, backslashes, brackets and braces, so that no list and no
 * object that a careless client has turned into text looks like one.
 */
const tokenForm = /^[\x21\x23-\x26\x28-\x2b\x2d-\x5a\x5e-\x7a\x7c\x7e]+$/;
/** Words that careless clients send when they have no token. */
const notTokens = new Set(["null", "undefined", "none", "nan", "true", "false"]);

/** Longer texts are not looked at. A JWT with many claims is below 4 KiB. */
const tokenCharsMax = 8192;

/** Whether a text can be a token at all: looked at before anything is done with it. */
export function isToken(text: string): boolean {
  return text.length <= tokenCharsMax && tokenForm.test(text) && !notTokens.has(text.toLowerCase());
}

/** Tokens are kept and looked up by this alone, so that the time of a look-up says nothing about them. */
export function hashToken(token: string): string {
  return hash("sha256", token, "hex");
}
