import { type ApiKey, readApiKeys } from "./api-keys.ts";
import { type Jwks, type PublicJwks, readPrivateJwks, readPublicJwks } from "./jwks.ts";
import { readTokenIssuers, type TokenIssuer } from "./jwt-verifiers.ts";
import { readSecretTenants, type SecretTenants } from "./secret-tenants.ts";
import { bool, json, list, oneOf, path, setting, text } from "./setting.ts";
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
  runtimeKeys: bool(
    "RUNTIME_KEYS",
    false,
    "Keys can be made and revoked while the server runs, by POST and DELETE /keys; needs mode api_key.",
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
  jwtVerifiers: setting<readonly TokenIssuer[]>(
    "JWT_VERIFIERS",
    "csv",
    [],
    "Other issuers of tokens in mode jwt: `scheme:issuer;audience=…;tenant=…;scopes=…`, schemes access, cognito and self.",
    readTokenIssuers,
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
  auditKey: {
    ...list(
      "AUDIT_KEY",
      [],
      "Keys of the audit chain, each of at least 32 characters: the first one signs, all of them verify.",
      {
        secret: true,
        defaultWords: "a key in SVC_DATA_DIR/audit.key, made at the first start",
        item: readAuditKey,
      },
    ),
    kind: "csv, secret",
  },
  secretsDir: path("SECRETS_DIR", "./secrets", "The directory of secret files."),
};

/** Checks a key of the audit chain. */
function readAuditKey(key: string): string {
  if (key.length < 32) throw new Error("must be keys of at least 32 characters, separated by commas");
  return key;
}
