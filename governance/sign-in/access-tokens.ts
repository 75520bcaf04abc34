import type { JWTPayload } from "jose";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { isScope, isSubject } from "../settings/api-keys.ts";
import type { Settings } from "../settings/settings.ts";
import { isTenantId } from "../settings/tenant-id.ts";

// Access tokens that svc itself signs after a sign-in (decisions 230, 247): ES256, `typ` at+jwt, and issuer and audience SVC_PUBLIC_URL.

/** The schemes of signed-in principals. */
export const signInSchemes = ["github", "google", "github_actions"] as const;
/** A scheme of signed-in principals. */
export type SignInScheme = (typeof signInSchemes)[number];

type TokenSettings = Pick<Settings, "tokenSigningKey" | "publicUrl" | "allowedTenants">;

/** The claims of an access token. */
export interface TokenClaims {
  readonly tenant: string;
  readonly sub: string;
  readonly scopes: readonly string[];
  readonly scheme: SignInScheme;
  /** Empty for workflows and Google. */
  readonly github_login: string;
}

const typ = "at+jwt";

/** Signs a token with the first key. */
export async function signToken(
  { tenant, sub, scopes, scheme, github_login }: TokenClaims,
  ttlSeconds: number,
  { tokenSigningKey: [key], publicUrl }: TokenSettings,
  env: Pick<Env, "now" | "id">,
): Promise<string> {
  if (key === undefined) throw new Error("there is no key for access tokens");
  const { importJWK, SignJWT } = await import("jose");
  const issuedAt = Math.floor(env.now() / 1_000);
  return new SignJWT({ tenant, scopes, scheme, github_login })
    .setProtectedHeader({ alg: "ES256", typ, kid: key.kid })
    .setIssuer(publicUrl)
    .setAudience(publicUrl)
    .setSubject(sub)
    .setJti(env.id())
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + ttlSeconds)
    .sign(await importJWK({ ...key.private }, "ES256"));
}

/** True if the key id of a token is that of an own key. */
export function isOwnKey(kid: unknown, { tokenSigningKey }: Pick<Settings, "tokenSigningKey">): boolean {
  return tokenSigningKey.some((key) => key.kid === kid);
}

/** Options that verify a token of svc, for jose. */
export function ownTokenRules({ publicUrl }: TokenSettings) {
  return { algorithms: ["ES256"], typ, issuer: publicUrl, audience: publicUrl, requiredClaims: ["exp", "sub"] };
}

/** Returns the principal of verified claims of an own token; null if they name none. */
export function ownPrincipal(claims: JWTPayload, { allowedTenants }: TokenSettings): Principal | null {
  const { sub, iss = "", tenant, scopes, scheme } = claims;
  if (typeof tenant !== "string" || !isTenantId(tenant) || typeof sub !== "string" || !isSubject(sub)) return null;
  if (allowedTenants.length > 0 && !allowedTenants.includes(tenant)) return null;
  const found = signInSchemes.find((each) => each === scheme);
  if (found === undefined || !Array.isArray(scopes) || !scopes.every((one) => typeof one === "string" && isScope(one)))
    return null;
  return { tenant_id: tenant, sub, scopes, scheme: found, issuer: iss };
}
