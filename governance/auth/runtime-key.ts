import type { Env } from "../../bus/env.ts";
import { hashToken } from "../settings/key-token.ts";

// The form of keys that are made while the server runs: `svck_`, 256 random bits and a checksum. Texts with a wrong checksum are refused
// without a look into the store (decision 252).

const form = /^svck_([0-9a-f]{64})_([0-9a-f]{8})$/;
const prefixChars = 13;

/** A new key, which is shown once. */
export interface NewKey {
  readonly token: string;
  readonly sha256: string;
  readonly prefix: string;
}

/** Makes a key. */
export function makeRuntimeKey({ id }: Pick<Env, "id">): NewKey {
  const secret = id() + id();
  const token = `svck_${secret}_${checksumOf(secret)}`;
  return { token, sha256: hashToken(token), prefix: token.slice(0, prefixChars) };
}

/** True if a text may be a key. */
export function isRuntimeKey(token: string): boolean {
  const [, secret, checksum] = form.exec(token) ?? [];
  return secret !== undefined && checksumOf(secret) === checksum;
}

function checksumOf(secret: string): string {
  return hashToken(`checksum ${secret}`).slice(0, 8);
}
