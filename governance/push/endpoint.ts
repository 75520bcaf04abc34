import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import { admitsHost } from "../../manifests/hosts.ts";

/** A subscription as browsers write it (PushSubscription.toJSON). */
export interface GivenSubscription {
  readonly endpoint: string;
  readonly keys: { readonly p256dh: string; readonly auth: string };
}

/** An uncompressed point of P-256, and a secret of 16 bytes, in base64url. */
const pointBytes = 65;
const authBytes = 16;
const base64url = /^[A-Za-z0-9_-]+={0,2}$/;

/** Refuses with push_endpoint_not_allowed or push_keys_malformed unless a push can be sent to the subscription. */
export function checkSubscription({ endpoint, keys }: GivenSubscription, allowedHosts: readonly string[]): void {
  if (!isAllowed(endpoint, allowedHosts)) throw new SvcError("push_endpoint_not_allowed");
  if (!isPoint(keys.p256dh) || bytesOf(keys.auth)?.length !== authBytes) throw new SvcError("push_keys_malformed");
}

/** True for an https URL in the form in which browsers write it, at a host of the list. */
function isAllowed(endpoint: string, allowedHosts: readonly string[]): boolean {
  const url = URL.parse(endpoint);
  if (url?.protocol !== "https:" || url.hash !== "" || !admitsHost(allowedHosts, url.hostname)) return false;
  // Excludes a user, a port, a final dot and capitals.
  return endpoint.startsWith(`https://${url.hostname}/`) && url.href === endpoint;
}

/** Returns the id under which an endpoint is stored. */
export function subscriptionId(endpoint: string): string {
  return `push_${createHash("sha256").update(endpoint).digest("hex").slice(0, 32)}`;
}

function isPoint(text: string): boolean {
  const bytes = bytesOf(text);
  if (bytes?.length !== pointBytes || bytes[0] !== 4) return false;
  const [x, y] = [bytes.subarray(1, 33), bytes.subarray(33)].map((half) => half.toString("base64url"));
  try {
    createPublicKey({ key: { kty: "EC", crv: "P-256", x, y } as JsonWebKey, format: "jwk" });
    return true;
  } catch {
    return false;
  }
}

function bytesOf(text: string): Buffer | null {
  return base64url.test(text) ? Buffer.from(text, "base64url") : null;
}
