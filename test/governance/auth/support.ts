import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { type Env, systemEnv } from "../../../bus/env.ts";
import { type Authenticator, createAuthenticator } from "../../../governance/auth/authenticator.ts";
import { loadSettings } from "../../../governance/settings.ts";

/** Some time in 2026, in seconds. */
export const now = 1_790_000_000;

/** An environment whose clock stands where the test puts it. */
export function clockEnv(): Env & { seconds: number } {
  const env = { ...systemEnv(), seconds: now, now: () => env.seconds * 1000 };
  return env;
}

export async function keyPair(alg: string, kid?: string) {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const named = kid === undefined ? {} : { kid };
  return {
    alg,
    kid,
    privateKey,
    publicKey,
    publicJwk: { ...(await exportJWK(publicKey)), ...named },
    privateJwk: { ...(await exportJWK(privateKey)), ...named },
  };
}

export type KeyPair = Awaited<ReturnType<typeof keyPair>>;

export const claims = { sub: "alice", tenant: "acme", scope: "chat:read chat:write", exp: now + 600 };

export function sign(
  pair: KeyPair,
  payload: Record<string, unknown>,
  header: Record<string, unknown> = {},
): Promise<string> {
  const { alg, kid } = pair;
  return new SignJWT(payload)
    .setProtectedHeader({ alg, ...(kid !== undefined && { kid }), ...header })
    .sign(pair.privateKey);
}

export function jwtAuthenticator(
  env: Env,
  pairs: readonly KeyPair[],
  more: Record<string, string> = {},
): Authenticator {
  const settings = loadSettings({
    SVC_AUTH_MODE: "jwt",
    SVC_JWKS_PUBLIC: JSON.stringify({ keys: pairs.map(({ publicJwk }) => publicJwk) }),
    ...more,
  });
  return createAuthenticator(settings, env);
}

export function bearer(token: string) {
  return { authorization: `Bearer ${token}`, x_api_key: undefined };
}
