import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Trigger } from "../../governance/settings/triggers.ts";

// Who sends to a trigger shows a secret by signing the body with it: as Standard Webhooks says (standardwebhooks.com), or as GitHub
// signs its webhooks.

/** What a sender says of a body that it has signed. */
export interface SignedDelivery {
  /** As the sender names it. */
  readonly delivery: string;
  /** What it is told apart by: equal ones are one delivery. */
  readonly key: string;
  /** Hex of the SHA-256 of the body. */
  readonly digest: string;
  /** What has happened, where a header says so; null where the body does. */
  readonly event: string | null;
  /** Epoch milliseconds behind which it is stale; null where nothing says when it was signed. */
  readonly staleAt: number | null;
}

type Headers = Readonly<Record<string, string | undefined>>;

/** Shorter secrets can be guessed. */
const secretBytesMin = 16;
/** How far a sender's clock may be from ours. */
const skewSecondsMax = 300;
const visible = /^[\x21-\x7e]{1,255}$/;

/** The bytes that a secret signs with, null when they are too few: of the standard scheme, base64 behind `whsec_` (HOOK-009). */
export function signingKey(secret: string, { scheme }: Pick<Trigger, "scheme">): Buffer | null {
  const isEncoded = scheme === "standard" && secret.startsWith("whsec_");
  const key = isEncoded ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret, "utf8");
  return key.length < secretBytesMin ? null : key;
}

/** What was delivered, where any of the keys has signed it; null where none has, where it is stale or without an id. */
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
  // As many as a header has room for: each costs one comparison.
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
  // It signs no id, so that one could be made up: the body is what was sent.
  return isSigned ? { delivery, key: digest, digest, event, staleAt: null } : null;
}

function isSame(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

function digestOf(body: Buffer): string {
  return createHash("sha256").update(body).digest("hex");
}
