import type { VapidKey } from "../settings/push-settings.ts";
import type { GivenSubscription } from "./endpoint.ts";

/** An encrypted message for a push service. */
export interface PushMessage {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Encrypts a payload for a browser (RFC 8291), and signs the request (RFC 8292). The service holds it for `ttlSeconds`. */
export async function encryptPush(
  { endpoint, keys }: GivenSubscription,
  payload: unknown,
  { key, subject, ttlSeconds }: { readonly key: VapidKey; readonly subject: string; readonly ttlSeconds: number },
): Promise<PushMessage> {
  // Loaded with the first push, because many deployments send none.
  const { default: webPush } = await import("web-push");
  const { headers, body } = webPush.generateRequestDetails({ endpoint, keys }, JSON.stringify(payload), {
    ...{ TTL: ttlSeconds, urgency: "high", contentEncoding: "aes128gcm" },
    vapidDetails: { subject, publicKey: key.public, privateKey: key.private },
  });
  const sent = Object.entries(headers as Record<string, unknown>).map(([name, value]) => [
    name.toLowerCase(),
    String(value),
  ]);
  const { "content-length": _, ...rest } = Object.fromEntries(sent) as Record<string, string>;
  return { headers: rest, body: body as Buffer };
}
