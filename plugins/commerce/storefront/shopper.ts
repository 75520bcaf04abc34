import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Env } from "../../../bus/env.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";

// The thread of a shopper. Its suffix is stored; the client gets the suffix with a signature, which is the only proof that the thread is
// its own (decisions 273 and 291).

/** A shopper's thread. */
export interface ShopThread {
  /** The stored suffix: `shop-<storefront>-<128 random bits>`. */
  readonly suffix: string;
  /** What the client sends and gets: the suffix and its signature. */
  readonly signed: string;
}

/** The beginning of the subjects of shoppers. */
export const shopperPrefix = "shopper:";

const form = /^(shop-(.+)-[0-9a-f]{32})-([0-9a-f]{64})$/;
const givenCharsMax = 256;

/** Makes a new thread of a storefront. */
export function newThread(storefront: string, keys: readonly string[], env: Pick<Env, "id">): ShopThread {
  const suffix = `shop-${storefront}-${env.id()}`;
  return { suffix, signed: `${suffix}-${signatureOf(suffix, keys[0] as string)}` };
}

/** Returns the thread that a client names; null unless a key has signed it for this storefront. */
export function verifiedThread(given: string, storefront: string, keys: readonly string[]): ShopThread | null {
  if (given.length > givenCharsMax) return null;
  const [, suffix = "", of, signature = ""] = form.exec(given) ?? [];
  if (of !== storefront) return null;
  const isSigned = keys.some((key) => timingSafeEqual(Buffer.from(signatureOf(suffix, key)), Buffer.from(signature)));
  return isSigned ? { suffix, signed: given } : null;
}

/** Returns the principal of a thread's shopper. It is the same for every request of the thread, so that an approval binds it. */
export function shopperOf({ suffix }: Pick<ShopThread, "suffix">, tenant_id: string): Principal {
  const sub = `${shopperPrefix}${createHash("sha256").update(suffix).digest("hex").slice(0, 32)}`;
  return { tenant_id, sub, scopes: [], scheme: "anonymous", issuer: "" };
}

function signatureOf(suffix: string, key: string): string {
  return createHmac("sha256", key).update(`svc shop thread\n${suffix}`).digest("hex");
}
