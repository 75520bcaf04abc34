import { type ApiKey, readApiKeys } from "./api-keys.ts";
import { type Jwks, type PublicJwks, readPrivateJwks, readPublicJwks } from "./jwks.ts";
import { readSecretTenants, type SecretTenants } from "./secret-tenants.ts";
import { json, list, oneOf, path, text } from "./setting.ts";
import { readTenantId } from "./tenant-id.ts";
import { readTriggers, type Trigger } from "./triggers.ts";

/** Authentication, scopes and secrets. */
export const accessSettings = {
  authMode: oneOf(
    "AUTH_MODE",
    ["none", "api_key", "jwt"],
    "none",
    "How callers authenticate; none is only for loopback.",
  ),
  authApiKeys: json<readonly ApiKey[]>(
    "AUTH_API_KEYS",
    [],
    "API keys: a map of key to {tenant_id, sub, scopes[]}; `svc keys` makes an entry.",
    readApiKeys,
    { secret: true, cure: "`svc keys` prints an entry" },
  ),
  jwksPublic: json<PublicJwks | null>(
    "JWKS_PUBLIC",
    null,
    "The public keys that verify tokens in mode jwt, as a JWKS: RS256, ES256 or EdDSA.",
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
  jwtIssuer: text("JWT_ISSUER", "", "The iss that tokens must have; unset accepts any."),
  jwtAudience: text("JWT_AUDIENCE", "", "The aud that tokens must have; unset accepts any."),
  allowedTenants: list("ALLOWED_TENANTS", [], "The tenants that credentials may name; unset accepts any.", {
    item: readTenantId,
  }),
  anonymousTenant: text(
    "ANONYMOUS_TENANT",
    "",
    "The tenant of requests without credentials, which may use manifests with allow_anonymous: true; unset refuses them.",
    { item: readTenantId },
  ),
  chatScopes: oneOf(
    "CHAT_SCOPES",
    ["any", "strict"],
    "any",
    "Scopes for chat routes: any scope at all, or (strict) chat:read to read and chat:write for the rest.",
  ),
  secretsBackend: oneOf(
    "SECRETS_BACKEND",
    ["env", "file"],
    "env",
    "Source of secret:NAME: the variable SVC_SECRET_NAME, or the file NAME in SVC_SECRETS_DIR.",
    { unbuilt: ["aws", "gcp"] },
  ),
  secretTenants: json<SecretTenants>(
    "SECRET_TENANTS",
    {},
    "Secrets that stored manifests of tenants may name: map of NAME to a list of tenants, or *.",
    readSecretTenants,
  ),
  triggers: json<readonly Trigger[]>(
    "TRIGGERS",
    [],
    "Triggers, which start runs by signed requests: map of id to {tenant, manifest, scheme, secret, prompt, events, scopes, rate_limit}.",
    readTriggers,
    { secret: true },
  ),
  secretsDir: path("SECRETS_DIR", "./secrets", "The directory of secret files."),
};
