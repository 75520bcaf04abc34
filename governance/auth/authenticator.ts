import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import { hashToken } from "../settings/key-token.ts";
import type { Settings } from "../settings/settings.ts";
import { type Credential, type CredentialForms, type CredentialHeaders, readCredential } from "./credentials.ts";
import { JwtVerifier } from "./jwt.ts";
import type { KeyRing } from "./key-ring.ts";
import { isRuntimeKey } from "./runtime-key.ts";

/** The values of `reason` in a 401 reply. */
export const unauthorizedReasons = {
  missing: "missing_credentials",
  apiKey: "invalid_api_key",
  jwt: "invalid_token",
} as const;
/** The value of `reason` in a 401 reply. */
export type UnauthorizedReason = (typeof unauthorizedReasons)[keyof typeof unauthorizedReasons];

/** The authenticated principal of a request, or the reason why there is none. */
export type Identity =
  | { readonly principal: Principal; readonly reason: null }
  | {
      readonly principal: null;
      readonly reason: UnauthorizedReason;
      /** Instructions for the caller; absent if the reason is enough. */
      readonly advice?: string;
    };

/**
 * Authenticates requests. Each thread has its own authenticator. `identify` is synchronous, except for the first verification of
 * a JWT, which returns a promise.
 */
export interface Authenticator {
  /** Rejects only if a store with the key, or the issuer of the token, does not answer. Repeated calls are cheap and have no effects. */
  identify(headers: CredentialHeaders): Identity | Promise<Identity>;
}

/** The optional parts of an authenticator. */
export interface AuthenticatorDeps {
  /** Finds keys that are made at run time; null without them. */
  readonly keys?: KeyRing | null;
  /** Reads the keys of the issuers in SVC_JWT_VERIFIERS; without it their tokens are invalid. */
  readonly outgoing?: Pick<Outgoing, "whole">;
}

/** Returns the authenticator for SVC_AUTH_MODE. */
export function createAuthenticator(settings: Settings, env: Env, deps: AuthenticatorDeps = {}): Authenticator {
  return { identify: identifier(settings, env, deps) };
}

/** Returns the principal of an identity. Refuses with unauthorized if there is none. */
export function principalOf(identity: Identity): Principal {
  if (identity.principal === null) {
    const { reason, advice } = identity;
    throw new SvcError("unauthorized", { reason, ...(advice !== undefined && { message: advice }) });
  }
  return identity.principal;
}

function andThen<T, U>(value: T | Promise<T>, then: (value: T) => U): U | Promise<U> {
  return value instanceof Promise ? value.then(then) : then(value);
}

function identifier(settings: Settings, env: Env, deps: AuthenticatorDeps): Authenticator["identify"] {
  switch (settings.authMode) {
    case "none":
      return () => localCaller;
    case "api_key":
      return apiKeyIdentifier(settings, env, deps.keys ?? null);
    case "jwt":
      return jwtIdentifier(settings, env, deps.outgoing ?? null);
  }
}

/** The principal of every request in mode none: a caller on loopback already controls the machine. */
const localCaller: Identity = {
  principal: { tenant_id: "default", sub: "local", scopes: ["*"], scheme: "none", issuer: "" },
  reason: null,
};
const missing: Identity = { principal: null, reason: unauthorizedReasons.missing };
const invalidKey: Identity = { principal: null, reason: unauthorizedReasons.apiKey };
const invalidToken: Identity = { principal: null, reason: unauthorizedReasons.jwt };

const bareAdvice = "The Authorization header has no scheme before the key: send `Authorization: Bearer KEY`.";

const apiKeyForms: CredentialForms = { schemes: ["bearer", "apikey"], keyHeader: true };
const jwtForms: CredentialForms = { schemes: ["bearer"], keyHeader: false };

function apiKeyIdentifier(settings: Settings, env: Env, keys: KeyRing | null): Authenticator["identify"] {
  const callers = new Map<string, Identity>();
  for (const { sha256, tenant_id, sub, scopes } of settings.authApiKeys) {
    callers.set(sha256, { principal: { tenant_id, sub, scopes, scheme: "api_key", issuer: "" }, reason: null });
  }
  const verifier = settings.tokenSigningKey.length === 0 ? null : new JwtVerifier(settings, env);
  const identity = (principal: Principal | null): Identity => (principal ? { principal, reason: null } : invalidKey);
  return (headers) => {
    const credential = readCredential(headers, apiKeyForms);
    if (typeof credential === "string") return refused(credential, invalidKey);
    const caller = callers.get(hashToken(credential.token));
    if (caller !== undefined) return caller;
    if (keys !== null && isRuntimeKey(credential.token)) return keys.find(credential.token).then(identity);
    if (verifier === null) return invalidKey;
    return andThen(verifier.verify(credential.token), identity);
  };
}

function jwtIdentifier(
  settings: Settings,
  env: Env,
  outgoing: AuthenticatorDeps["outgoing"] | null,
): Authenticator["identify"] {
  const verifier = new JwtVerifier(settings, env, outgoing);
  const identity = (principal: Principal | null): Identity => (principal ? { principal, reason: null } : invalidToken);
  return (headers) => {
    const credential = readCredential(headers, jwtForms);
    if (typeof credential === "string") return refused(credential, invalidToken);
    return andThen(verifier.verify(credential.token), identity);
  };
}

function refused(credential: Exclude<Credential, object>, invalid: Identity): Identity {
  if (credential === "bare" && invalid.principal === null) return { ...invalid, advice: bareAdvice };
  return credential === "missing" ? missing : invalid;
}
