import type { JWTPayload, LocalJWKSet } from "jose";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import { isScope, isSubject } from "../settings/api-keys.ts";
import { jwtAlgorithms } from "../settings/jwks.ts";
import { hashToken } from "../settings/key-token.ts";
import type { Settings } from "../settings/settings.ts";
import { isTenantId } from "../settings/tenant-id.ts";
import { isOwnKey, ownPrincipal, ownTokenRules } from "../sign-in/access-tokens.ts";
import { IssuerTokens } from "./issuer-tokens.ts";
import { isOn, isSignInScheme } from "./sign-in-scopes.ts";

/** Tolerated clock difference. */
const leewaySeconds = 60;
/** Max cached callers; about 1 KB each. */
const rememberedMax = 4096;
const scopesMax = 256;
/** Three base64url parts: a signed token. Unsigned and encrypted tokens do not match. */
const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

interface Remembered {
  readonly principal: Principal;
  /** Epoch milliseconds at which the token expires, leeway included. */
  readonly until: number;
  /** When the token must be verified again, because the keys of its issuer are old; on the monotonic clock. */
  readonly keysUntil: number;
}

/**
 * Verifies JWTs: against SVC_JWKS_PUBLIC, against the keys that svc signs access tokens with, and against the keys of the issuers in
 * SVC_JWT_VERIFIERS. The key id of a token and then its issuer decide which of them verify it (decision 247). Caches valid ones by hash until they expire and evicts the least recently used. Never
 * follows key URLs in a token's header.
 */
export class JwtVerifier {
  readonly #env: Env;
  readonly #settings: Settings;
  /** The imported keys. Created with the first token, because many deployments never see one. */
  #keys: LocalJWKSet | null = null;
  #ownKeys: LocalJWKSet | null = null;
  /** By token hash, least recently used first. */
  readonly #remembered = new Map<string, Remembered>();
  /** Verifications in progress by token hash, so that a burst of requests with a new token verifies it once. */
  readonly #underWay = new Map<string, Promise<Principal | null>>();

  readonly #issuers = new Map<string, IssuerTokens>();

  /** `outgoing` reads the keys of other issuers; without it their tokens are invalid. */
  constructor(settings: Settings, env: Env, outgoing: Pick<Outgoing, "whole"> | null = null) {
    this.#settings = settings;
    this.#env = env;
    if (outgoing === null || settings.authMode !== "jwt") return;
    for (const entry of settings.jwtVerifiers)
      this.#issuers.set(entry.issuer, new IssuerTokens(entry, settings, env, outgoing));
  }

  /**
   * Returns the principal of a token; null if it is invalid. Returns a promise only if the token is not cached. Rejects with
   * issuer_unavailable if the keys of the token's issuer cannot be read.
   */
  verify(token: string): Principal | null | Promise<Principal | null> {
    const { jwksPublic, tokenSigningKey } = this.#settings;
    const hasKeys = jwksPublic !== null || tokenSigningKey.length > 0 || this.#issuers.size > 0;
    if (!hasKeys || !compactForm.test(token)) return null;
    const key = hashToken(token);
    const remembered = this.#remembered.get(key);
    if (remembered) {
      this.#remembered.delete(key);
      if (this.#env.now() >= remembered.until) return null;
      if (this.#env.monotonic() < remembered.keysUntil) {
        this.#remembered.set(key, remembered);
        return remembered.principal;
      }
    }
    const underWay = this.#underWay.get(key) ?? this.#verify(token, key);
    this.#underWay.set(key, underWay);
    return underWay;
  }

  async #verify(token: string, key: string): Promise<Principal | null> {
    try {
      const { decodeJwt, decodeProtectedHeader } = await import("jose");
      const isOwn = isOwnKey(decodeProtectedHeader(token).kid, this.#settings);
      // An issuer of SVC_JWT_VERIFIERS signs with its own keys alone, and no other issuer does.
      const issuer = this.#issuers.size === 0 ? undefined : this.#issuers.get(decodeJwt(token).iss ?? "");
      const verified = isOwn
        ? await this.#verifyOwn(token)
        : await (issuer?.verify(token) ?? this.#verifyForeign(token));
      if (verified?.principal) {
        const until = ((verified.payload.exp as number) + leewaySeconds) * 1000;
        const { principal, keysUntil = Number.POSITIVE_INFINITY } = verified;
        this.#remember(key, { principal, until, keysUntil });
      }
      return verified?.principal ?? null;
    } catch (error) {
      if (error instanceof SvcError) throw error;
      // The caller learns only that the token is invalid, not why.
      return null;
    } finally {
      this.#underWay.delete(key);
    }
  }

  async #verifyOwn(token: string): Promise<Verified> {
    const { createLocalJWKSet, jwtVerify } = await import("jose");
    const keys = this.#settings.tokenSigningKey.map((key) => ({ ...key.public }) as { kty: string });
    this.#ownKeys ??= createLocalJWKSet({ keys });
    const { payload } = await jwtVerify(token, this.#ownKeys, { ...ownTokenRules(this.#settings), ...this.#clock });
    const principal = ownPrincipal(payload, this.#settings);
    // The key may outlive the provider of its tokens (decision 230).
    const isAccepted = principal !== null && isSignInScheme(principal.scheme) && isOn(principal.scheme, this.#settings);
    return { payload, principal: isAccepted ? principal : null };
  }

  async #verifyForeign(token: string): Promise<Verified | null> {
    const { jwksPublic, jwtIssuer, jwtAudience, publicUrl, tokenSigningKey, allowedTenants, authMode } = this.#settings;
    if (jwksPublic === null || authMode !== "jwt") return null;
    const { createLocalJWKSet, jwtVerify } = await import("jose");
    this.#keys ??= createLocalJWKSet({ keys: jwksPublic.keys.map((key) => ({ ...key }) as { kty: string }) });
    const { payload } = await jwtVerify(token, this.#keys, {
      algorithms: [...jwtAlgorithms],
      requiredClaims: ["exp", "sub"],
      ...this.#clock,
      ...(jwtIssuer !== "" && { issuer: jwtIssuer }),
      ...(jwtAudience !== "" && { audience: jwtAudience }),
    });
    // The keys of another service must not sign in the name of this one.
    const isForged = tokenSigningKey.length > 0 && payload.iss === publicUrl;
    return { payload, principal: isForged ? null : principalOf(payload, allowedTenants) };
  }

  get #clock() {
    return { clockTolerance: leewaySeconds, currentDate: new Date(this.#env.now()) };
  }

  #remember(key: string, remembered: Remembered): void {
    if (this.#remembered.size >= rememberedMax) {
      for (const oldest of this.#remembered.keys()) {
        this.#remembered.delete(oldest);
        break;
      }
    }
    this.#remembered.set(key, remembered);
  }
}

interface Verified {
  readonly payload: JWTPayload;
  readonly principal: Principal | null;
  /** Absent for keys of the settings, which do not change. */
  readonly keysUntil?: number;
}

/** Returns the principal of verified claims; null unless they name exactly one tenant and one subject. */
function principalOf(claims: JWTPayload, allowedTenants: readonly string[]): Principal | null {
  const { sub, iss, tenant, tenant_id } = claims;
  if (tenant !== undefined && tenant_id !== undefined && tenant !== tenant_id) return null;
  const tenantId = tenant ?? tenant_id;
  if (typeof tenantId !== "string" || !isTenantId(tenantId)) return null;
  if (allowedTenants.length > 0 && !allowedTenants.includes(tenantId)) return null;
  if (typeof sub !== "string" || !isSubject(sub)) return null;
  if (iss !== undefined && typeof iss !== "string") return null;
  const scopes = scopesOf(claims);
  return scopes && { tenant_id: tenantId, sub, scopes, scheme: "jwt", issuer: iss ?? "" };
}

/** Reads `scope` (space-separated) and `scopes` (a list); null if either is malformed. */
function scopesOf({ scope = "", scopes = [] }: JWTPayload): readonly string[] | null {
  if (typeof scope !== "string" || !Array.isArray(scopes)) return null;
  const all = [...scope.split(" ").filter((word) => word !== ""), ...scopes];
  if (all.length > scopesMax || !all.every((item) => typeof item === "string" && isScope(item))) return null;
  return [...new Set<string>(all)];
}
