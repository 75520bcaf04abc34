import { createHmac } from "node:crypto";

/**
 * Returns the value of `webhook-signature` (Standard Webhooks, symmetric): for each key `v1,` and the base64 of HMAC-SHA256 over
 * `{id}.{timestamp}.{body}`, separated by blanks.
 */
export function signatureOf(keys: readonly Buffer[], id: string, timestamp: number, body: string): string {
  const signed = `${id}.${timestamp}.${body}`;
  return keys.map((key) => `v1,${createHmac("sha256", key).update(signed, "utf8").digest("base64")}`).join(" ");
}
