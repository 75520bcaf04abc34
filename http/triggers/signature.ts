import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Trigger } from "../../governance/settings/triggers.ts";

// Verifies the signature of a trigger's sender, by Standard Webhooks (standardwebhooks.com) or in GitHub's form.

/** A delivery whose signature is valid. */
export interface SignedDelivery {
  /** The sender's id of the delivery. */
  readonly delivery: string;
  /** The idempotency key: equal keys are one delivery. */
  readonly key: string;
  /** Hex of the SHA-256 of the body. */
  readonly digest: string;
  /** The event's name if a header states it; null if the body does. */
  readonly event: string | null;
  /** Epoch milliseconds after which the signature is stale; null if it has no time. */
  readonly staleAt: number | null;
}

type Headers = Readonly<Record<string, string | undefined>>;

/** Shorter secrets can be guessed. */
const secretBytesMin = 16;
/** Max difference between the sender's clock and ours. */
const skewSecondsMax = 300;
const visible = /^[\x21-\x7e]{1,255}$/;

/** Returns the bytes of a signing secret; null if there are too few. In the standard scheme, base64 follows `whsec_`. */
export function signingKey(secret: string, { scheme }: Pick<Trigger, "scheme">): Buffer | null {
  const isEncoded = scheme === "standard" && secret.startsWith("whsec_");
  const key = isEncoded ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret, "utf8");
  return key.length < secretBytesMin ? null : key;
}

/** Returns the delivery if any of the keys signed it. Null if none did, if it is stale, or if it has no id. */
export function readSigned(
  { scheme }: Pick<Trigger, "scheme">,
  keys: readonly Buffer[],
  headers: Headers,
  body: Buffer,
  nowMs: number,
): SignedDelivery | null {
  return scheme === "standard" ? readStandard(keys, headers, body, nowMs) : readGithub(keys, headers, body);
}

function readStandard(keys: readonly Buffer[], headers: Headers, body: Buffer, nowMs: number): SignedDelivery | null {
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!visible.test(id) || !/^\d{1,12}$/.test(timestamp)) return null;
  if (Math.abs(Math.floor(nowMs / 1000) - Number(timestamp)) > skewSecondsMax) return null;
  // The size of the header bounds the number of signatures; each costs one comparison.
  const given = (headers["webhook-signature"] ?? "").split(" ").filter((one) => one.startsWith("v1,"));
  const shown = given.map((one) => Buffer.from(one.slice("v1,".length), "base64"));
  const isSigned = keys.some((key) => {
    const right = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    return shown.some((signature) => isSame(signature, right));
  });
  const staleAt = (Number(timestamp) + skewSecondsMax + 1) * 1000;
  return isSigned ? { delivery: id, key: id, digest: digestOf(body), event: null, staleAt } : null;
}

function readGithub(keys: readonly Buffer[], headers: Headers, body: Buffer): SignedDelivery | null {
  const { "x-github-event": event = "", "x-github-delivery": delivery = "" } = headers;
  const hex = /^sha256=([0-9a-f]{64})$/.exec(headers["x-hub-signature-256"] ?? "")?.[1];
  if (hex === undefined || !visible.test(delivery) || !visible.test(event)) return null;
  const shown = Buffer.from(hex, "hex");
  const isSigned = keys.some((key) => isSame(shown, createHmac("sha256", key).update(body).digest()));
  const digest = digestOf(body);
  // GitHub does not sign the delivery id, so a sender could change it. The key is the body's digest.
  return isSigned ? { delivery, key: digest, digest, event, staleAt: null } : null;
}

function isSame(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

function digestOf(body: Buffer): string {
  return createHash("sha256").update(body).digest("hex");
}
