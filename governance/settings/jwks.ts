import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { readMap } from "./object-shape.ts";

/** A key of a JWKS, for signatures only. */
export type SigningJwk = Readonly<JsonWebKey> & { readonly kid?: string; readonly alg?: string; readonly use?: string };

/** A JSON Web Key Set. */
export interface Jwks {
  readonly keys: readonly SigningJwk[];
}

/** The keys that verify tokens, and the skipped keys of the same document. */
export interface PublicJwks extends Jwks {
  /** One sentence for each skipped key, with its position and the reason. */
  readonly skipped: readonly string[];
}

/** The accepted signature algorithms. Shared secrets and `none` are never accepted. */
export const jwtAlgorithms = ["RS256", "ES256", "EdDSA"] as const;
/** An accepted signature algorithm. */
export type JwtAlgorithm = (typeof jwtAlgorithms)[number];

const rsaBitsMin = 2048;

/** Returns the algorithm of a key; null if it is not supported. */
export function algorithmOf(key: SigningJwk): JwtAlgorithm | null {
  if (key.kty === "RSA") return "RS256";
  if (key.kty === "EC" && key.crv === "P-256") return "ES256";
  if (key.kty === "OKP" && key.crv === "Ed25519") return "EdDSA";
  return null;
}

/**
 * Reads SVC_JWKS_PUBLIC: `{keys: [...]}`. Skips keys that cannot verify a token, such as encryption keys (RFC 7517, section 5).
 * Throws for a secret key, and if no usable key is left.
 */
export function readPublicJwks(document: unknown): PublicJwks {
  const skipped: string[] = [];
  const readable: { where: string; key: SigningJwk }[] = [];
  for (const [index, value] of readKeyList(document).entries()) {
    const where = `key ${index + 1}`;
    const { d, k, kty } = readMap(value, where);
    if (d !== undefined || k !== undefined || kty === "oct")
      throw new Error(`${where} is secret; only public keys belong here`);
    skipUnusable(() => {
      const key = readKey(value, where);
      importKey(where, () => createPublicKey({ key, format: "jwk" }));
      readable.push({ where, key });
    });
  }
  const keys: SigningJwk[] = [];
  for (const { where, key } of readable)
    skipUnusable(() => {
      if (readable.length > 1 && key.kid === undefined)
        throw new Error(`${where} needs a kid, because there are several keys`);
      if (keys.some(({ kid }) => kid === key.kid)) throw new Error(`${where} has the kid of another key`);
      keys.push(key);
    });
  if (keys.length === 0) throw new Error(`no key can verify a token: ${skipped.join("; ")}`);
  return { keys, skipped };

  function skipUnusable(read: () => void): void {
    try {
      read();
    } catch (error) {
      skipped.push((error as Error).message);
    }
  }
}

/** Reads SVC_JWKS_PRIVATE: one private key, or `{keys: [...]}` whose first key signs. */
export function readPrivateJwks(document: unknown): Jwks {
  const single = readMap(document, "the value").keys === undefined;
  const keys = readKeyList(single ? { keys: [document] } : document).map((value, index) => {
    const where = `key ${index + 1}`;
    const key = readKey(value, where);
    if (typeof key.d !== "string") throw new Error(`${where} is not a private key`);
    importKey(where, () => createPrivateKey({ key, format: "jwk" }));
    return key;
  });
  return { keys };
}

function readKeyList(document: unknown): readonly unknown[] {
  const { keys } = readMap(document, "the value");
  if (!Array.isArray(keys) || keys.length === 0) throw new Error("keys must be a list of at least one key");
  return keys;
}

function readKey(value: unknown, where: string): SigningJwk {
  const key = readMap(value, where) as SigningJwk;
  const algorithm = algorithmOf(key);
  if (algorithm === null) throw new Error(`${where} must be RSA, EC P-256 or OKP Ed25519`);
  if (key.use !== undefined && key.use !== "sig") throw new Error(`${where}: use must be sig`);
  if (key.alg !== undefined && key.alg !== algorithm) throw new Error(`${where}: alg must be ${algorithm}`);
  if (key.kid !== undefined && typeof key.kid !== "string") throw new Error(`${where}: kid must be a string`);
  return key;
}

function importKey(where: string, read: () => KeyObject): void {
  let key: KeyObject;
  try {
    key = read();
  } catch {
    throw new Error(`${where} is not a valid key`);
  }
  const bits = key.asymmetricKeyDetails?.modulusLength;
  if (bits !== undefined && bits < rsaBitsMin) throw new Error(`${where} has ${bits} bits; RSA needs ${rsaBitsMin}`);
}
