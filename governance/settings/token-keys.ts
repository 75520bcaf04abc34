import { createHash, createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { readMap } from "./object-shape.ts";

/** A key that signs access tokens: EC P-256, for ES256. */
export interface TokenKey {
  /** The thumbprint of the public key (RFC 7638). */
  readonly kid: string;
  readonly private: Readonly<JsonWebKey>;
  readonly public: Readonly<JsonWebKey> & { readonly kid: string; readonly alg: "ES256"; readonly use: "sig" };
}

/** Reads SVC_TOKEN_SIGNING_KEY: a PEM, a private JWK, or a list of both. The first key signs, all of them verify. */
export function readTokenKeys(text: string): readonly TokenKey[] {
  const items = text.trimStart().startsWith("-----BEGIN") ? [text] : listOf(text);
  if (items.length === 0) throw new Error("must have at least one key");
  const keys = items.map((item, index) => readKey(item, `key ${index + 1}`));
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length) throw new Error("has the same key twice");
  return keys;
}

/** Returns a private key with its public part. Throws an Error that begins with `where`. */
export function tokenKeyOf(key: KeyObject, where: string): TokenKey {
  const jwk = key.export({ format: "jwk" });
  if (jwk.kty !== "EC" || jwk.crv !== "P-256" || jwk.d === undefined)
    throw new Error(`${where} must be a private key of the curve P-256`);
  const { kty, crv, x, y } = createPublicKey(key).export({ format: "jwk" });
  const kid = createHash("sha256").update(JSON.stringify({ crv, kty, x, y })).digest("base64url");
  return { kid, private: jwk, public: { kty, crv, x, y, kid, alg: "ES256", use: "sig" } as TokenKey["public"] };
}

function listOf(text: string): readonly unknown[] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error("must be a PEM, a private JWK, or a JSON list of both");
  }
  if (Array.isArray(document)) return document;
  const { keys } = readMap(document, "the value");
  return Array.isArray(keys) ? keys : [document];
}

function readKey(item: unknown, where: string): TokenKey {
  let key: KeyObject;
  try {
    key =
      typeof item === "string"
        ? createPrivateKey(item)
        : createPrivateKey({ key: readMap(item, where) as JsonWebKey, format: "jwk" });
  } catch {
    throw new Error(`${where} is not a private key`);
  }
  return tokenKeyOf(key, where);
}
