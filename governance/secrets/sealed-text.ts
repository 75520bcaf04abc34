import { createCipheriv, createDecipheriv } from "node:crypto";
import type { Env } from "../../bus/env.ts";

const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;

/**
 * Encrypts a text with the first key (A256GCM). `owner` is authenticated with it, so that a row cannot be moved to another owner. Throws
 * without a key.
 */
export function sealText(text: string, owner: string, keys: readonly string[], env: Pick<Env, "id">): string {
  const [key] = keys;
  if (key === undefined) throw new Error("there is no key that encrypts");
  const iv = Buffer.from(env.id(), "hex").subarray(0, ivBytes);
  const cipher = createCipheriv(algorithm, Buffer.from(key, "base64"), iv).setAAD(Buffer.from(owner));
  const sealed = [iv, cipher.update(text, "utf8"), cipher.final()];
  return Buffer.concat([...sealed, cipher.getAuthTag()]).toString("base64url");
}

/** Decrypts a text with the key that has encrypted it; null if none of the keys has, or for another owner. */
export function openText(sealed: string, owner: string, keys: readonly string[]): string | null {
  const bytes = Buffer.from(sealed, "base64url");
  if (bytes.length < ivBytes + tagBytes) return null;
  for (const key of keys) {
    const iv = bytes.subarray(0, ivBytes);
    const decipher = createDecipheriv(algorithm, Buffer.from(key, "base64"), iv, { authTagLength: tagBytes });
    decipher.setAAD(Buffer.from(owner)).setAuthTag(bytes.subarray(-tagBytes));
    try {
      return decipher.update(bytes.subarray(ivBytes, -tagBytes), undefined, "utf8") + decipher.final("utf8");
    } catch {
      // Another key of the list has encrypted it.
    }
  }
  return null;
}
