import type { Env } from "../../bus/env.ts";
import type { AccessToken } from "../../storage/objects/gcs.ts";
import { RemoteFailure, type RemoteSend } from "../../storage/objects/remote.ts";
import type { ServiceAccountKey } from "../settings/object-settings.ts";
import { readToken } from "./instance-role.ts";

const scope = "https://www.googleapis.com/auth/devstorage.read_write";
const grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const livesSeconds = 3_600;
const timeoutMs = 10_000;
const bytesMax = 64 * 1024;

/** Exchanges a JWT that the key has signed for an access token (RFC 7523). */
export async function googleToken(
  key: ServiceAccountKey,
  send: RemoteSend,
  env: Pick<Env, "now">,
): Promise<AccessToken> {
  const { importPKCS8, SignJWT } = await import("jose");
  const now = Math.floor(env.now() / 1000);
  const assertion = await new SignJWT({ scope })
    .setProtectedHeader({ alg: "RS256", typ: "JWT", ...(key.private_key_id !== null && { kid: key.private_key_id }) })
    .setIssuer(key.client_email)
    .setAudience(key.token_uri)
    .setIssuedAt(now)
    .setExpirationTime(now + livesSeconds)
    .sign(await importPKCS8(key.private_key, "RS256"));
  const { status, bytes } = await send(
    {
      method: "POST",
      url: key.token_uri,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ grant_type: grant, assertion }).toString(),
      timeoutMs,
    },
    bytesMax,
  );
  if (status !== 200) throw new RemoteFailure(`the service for tokens answers ${status}`);
  return readToken(Buffer.from(bytes).toString());
}
