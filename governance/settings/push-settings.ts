import { createPrivateKey, createPublicKey, type JsonWebKey } from "node:crypto";
import { isHostEntry } from "../../manifests/hosts.ts";
import { list, seconds, setting, text } from "./setting.ts";

/** The key pair by which push services recognize this server (RFC 8292): unpadded base64url, as browsers and web-push take it. */
export interface VapidKey {
  /** 32 bytes. */
  readonly private: string;
  /** An uncompressed point, 65 bytes. */
  readonly public: string;
}

/** Settings of push notifications (decisions 233 and 256). */
export const pushSettings = {
  pushVapidPrivateKey: setting<VapidKey | null>(
    "PUSH_VAPID_PRIVATE_KEY",
    "key, secret",
    null,
    "The private key of push notifications, from `svc keys vapid`; a new one ends all subscriptions.",
    readVapidKey,
    { secret: true },
  ),
  pushVapidSubject: text(
    "PUSH_VAPID_SUBJECT",
    "",
    "Where push services reach the operator: mailto:ADDRESS or an https URL.",
    { item: readSubject },
  ),
  pushTimeoutSeconds: seconds("PUSH_TIMEOUT_SECONDS", 10, [0.001, 60], "Time for a push service to answer."),
  pushAllowedHosts: list(
    "PUSH_ALLOWED_HOSTS",
    [
      "web.push.apple.com",
      "*.push.apple.com",
      "fcm.googleapis.com",
      "updates.push.services.mozilla.com",
      "*.notify.windows.com",
    ],
    "Hosts of push services to which browsers may subscribe; *.x admits the hosts below x.",
    { item: readHost },
  ),
};

/** Returns the key pair of a private key: 32 bytes in base64url, or a PEM of the curve P-256. */
function readVapidKey(given: string): VapidKey {
  if (given.startsWith("-----BEGIN")) return pairOf(exportPem(given));
  const bytes = Buffer.from(given, "base64url");
  if (!/^[A-Za-z0-9_-]{43}=?$/.test(given) || bytes.length !== 32) throw new Error(form);
  // The public point is computed from the private number.
  const der = Buffer.concat([beforeNumber, bytes, afterNumber]);
  try {
    const key = createPrivateKey({ key: der, format: "der", type: "sec1" });
    return pairOf(key.export({ format: "jwk" }));
  } catch {
    throw new Error(form);
  }
}

const form = "must be a private key of the curve P-256: 32 bytes in base64url, or a PEM";
/** The parts of a key in SEC 1 around its 32 bytes; the last one names the curve. */
const beforeNumber = Buffer.from("30310201010420", "hex");
const afterNumber = Buffer.from("a00a06082a8648ce3d030107", "hex");

function exportPem(pem: string): JsonWebKey {
  try {
    return createPrivateKey(pem).export({ format: "jwk" });
  } catch {
    throw new Error(form);
  }
}

function pairOf(jwk: JsonWebKey): VapidKey {
  if (jwk.kty !== "EC" || jwk.crv !== "P-256" || jwk.d === undefined) throw new Error(form);
  const { x = "", y = "" } = createPublicKey({ key: jwk, format: "jwk" }).export({ format: "jwk" });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, "base64url"), Buffer.from(y, "base64url")]);
  return { private: jwk.d, public: point.toString("base64url") };
}

function readSubject(value: string): string {
  const url = URL.parse(value);
  const isPlace = url?.protocol === "https:" || (url?.protocol === "mailto:" && /^[^@\s]+@[^@\s]+$/.test(url.pathname));
  if (!isPlace) throw new Error("must be mailto:ADDRESS or an https URL");
  return value;
}

function readHost(host: string): string {
  if (!isHostEntry(host) || host !== host.toLowerCase())
    throw new Error(`has ${JSON.stringify(host)}, which is no host in lower case`);
  return host;
}
