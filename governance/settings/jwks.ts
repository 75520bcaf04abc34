import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { readMap } from "./object-shape.ts";

/** A key of a JWKS, for signatures alone. */
export type SigningJwk = Readonly<JsonWebKey> & { readonly kid?: string; readonly alg?: string; readonly use?: string };

/** A set of keys. */
export interface Jwks {
  readonly keys: readonly SigningJwk[];
}

/** The algorithms that a token may be signed with. Shared secrets and `none` are never among them. */
export const jwtAlgorithms = ["RS256", "ES256", "EdDSA"] as const;
/** An algorithm that a token may be signed with. */
export type JwtAlgorithm = (typeof jwtAlgorithms)[number];

const rsaBitsMin = 2048;

/** The algorithm that goes with a key, null when none of ours does. */
export function algorithmOf(key: SigningJwk): JwtAlgorithm | null {
  if (key.kty === "RSA") return "RS256";
  if (key.kty === "EC" && key.crv === "P-256") return "ES256";
  if (key.kty === "OKP" && key.crv === "Ed25519") return "EdDSA";
  return null;
}

/** Reads SVC_JWKS_PUBLIC: `{keys: [...]}` with public keys alone. */
export function readPublicJwks(document: unknown): Jwks {
  const keys = readKeys(document);
  for (const [index, key] of keys.entries()) {
    const where = `key ${index + 1}`;
    if (key.d !== undefined || key.k !== undefined) throw new Error(`${where} is secret; only public keys belong here`);
    importKey(where, () => createPublicKey({ key, format: "jwk" }));
    if (keys.length > 1 && key.kid === undefined)
      throw new Error(`${where} needs a kid, because there are several keys`);
    if (keys.findIndex((other) => other.kid === key.kid) !== index)
      throw new Error(`${where} has the kid of another key`);
  }
  return { keys };
}

/** Reads SVC_JWKS_PRIVATE: one private key, or `{keys: [...]}` whose first key signs. */
export function readPrivateJwks(document: unknown): Jwks {
  const single = readMap(document, "the value").keys === undefined;
  const keys = readKeys(single ? { keys: [document] } : document);
  for (const [index, key] of keys.entries()) {
    const where = `key ${index + 1}`;
    if (typeof key.d !== "string") throw new Error(`${where} is not a private key`);
    importKey(where, () => createPrivateKey({ key, format: "jwk" }));
  }
  return { keys };
}

function readKeys(document: unknown): readonly SigningJwk[] {
  const { keys } = readMap(document, "the value");
  if (!Array.isArray(keys) || keys.length === 0) throw new Error("keys must be a list of at least one key");
  return keys.map((value, index) => {
    const where = `key ${index + 1}`;
    const key = readMap(value, where) as SigningJwk;
    const algorithm = algorithmOf(key);
    if (algorithm === null) throw new Error(`${where} must be RSA, EC P-256 or OKP Ed25519`);
    if (key.alg !== undefined && key.alg !== algorithm) throw new Error(`${where}: alg must be ${algorithm}`);
    if (key.use !== undefined && key.use !== "sig") throw new Error(`${where}: use must be sig`);
    if (key.kid !== undefined && typeof key.kid !== "string") throw new Error(`${where}: kid must be a string`);
    return key;
  });
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
