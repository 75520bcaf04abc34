import { type ApiKey, readApiKeys } from "./api-keys.ts";
import { type Jwks, type PublicJwks, readPrivateJwks, readPublicJwks } from "./jwks.ts";
import { json, list, oneOf, path, text } from "./setting.ts";
import { readTenantId } from "./tenant-id.ts";
import { readTriggers, type Trigger } from "./triggers.ts";

/** Who may call, and what is secret. */
export const accessSettings = {
  authMode: oneOf(
    "AUTH_MODE",
    ["none", "api_key", "jwt"],
    "none",
    "How callers are known; none is for loopback alone.",
  ),
  authApiKeys: json<readonly ApiKey[]>(
    "AUTH_API_KEYS",
    [],
    "Map of key to {tenant_id, sub, scopes[]}; `svc keys` makes one.",
    readApiKeys,
    { secret: true, cure: "`svc keys` prints an entry" },
  ),
  jwksPublic: json<PublicJwks | null>(
    "JWKS_PUBLIC",
    null,
    "The public keys, as a JWKS, that tokens are verified with in mode jwt: RS256, ES256 or EdDSA.",
    readPublicJwks,
  ),
  jwksPrivate: json<Jwks | null>(
    "JWKS_PRIVATE",
    null,
    "The private key that `svc mint-jwt` signs with.",
    readPrivateJwks,
    {
      secret: true,
    },
  ),
  jwtIssuer: text("JWT_ISSUER", "", "The iss that tokens must name; unset, any."),
  jwtAudience: text("JWT_AUDIENCE", "", "The aud that tokens must name; unset, any."),
  allowedTenants: list("ALLOWED_TENANTS", [], "The tenants that credentials may name; unset, any.", {
    item: readTenantId,
  }),
  anonymousTenant: text(
    "ANONYMOUS_TENANT",
    "",
    "The tenant of requests without credentials, which reach manifests with allow_anonymous: true; unset, they are refused.",
    { item: readTenantId },
  ),
  chatScopes: oneOf(
    "CHAT_SCOPES",
    ["any", "strict"],
    "any",
    "What chat routes ask for: any scope at all, or chat:read to read and chat:write for the rest.",
  ),
  secretsBackend: oneOf(
    "SECRETS_BACKEND",
    ["env", "file"],
    "env",
    "Where secret:NAME is looked up: SVC_SECRET_NAME, or the file NAME in SVC_SECRETS_DIR.",
    { unbuilt: ["aws", "gcp"] },
  ),
  triggers: json<readonly Trigger[]>(
    "TRIGGERS",
    [],
    "Map of id to {tenant, manifest, scheme, secret, prompt, events, scopes, rate_limit}: who may begin runs by signed requests.",
    readTriggers,
    { secret: true },
  ),
  secretsDir: path("SECRETS_DIR", "./secrets", "The directory of secret files."),
};
