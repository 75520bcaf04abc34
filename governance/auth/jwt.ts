import type { JWTPayload, LocalJWKSet } from "jose";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { isScope, isSubject } from "../settings/api-keys.ts";
import { jwtAlgorithms } from "../settings/jwks.ts";
import { hashToken } from "../settings/key-token.ts";
import type { Settings } from "../settings/settings.ts";
import { isTenantId } from "../settings/tenant-id.ts";

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
}

/**
 * Verifies JWTs against SVC_JWKS_PUBLIC. Caches valid ones by hash until they expire and evicts the least recently used. Never
 * follows key URLs in a token's header.
 */
export class JwtVerifier {
  readonly #env: Env;
  readonly #settings: Settings;
  /** The imported keys. Created with the first token, because many deployments never see one. */
  #keys: LocalJWKSet | null = null;
  /** By token hash, least recently used first. */
  readonly #remembered = new Map<string, Remembered>();
  /** Verifications in progress by token hash, so that a burst of requests with a new token verifies it once. */
  readonly #underWay = new Map<string, Promise<Principal | null>>();

  constructor(settings: Settings, env: Env) {
    this.#settings = settings;
    this.#env = env;
  }

  /** Returns the principal of a token; null if it is invalid. Returns a promise only if the token is not cached. */
  verify(token: string): Principal | null | Promise<Principal | null> {
    if (this.#settings.jwksPublic === null || !compactForm.test(token)) return null;
    const key = hashToken(token);
    const remembered = this.#remembered.get(key);
    if (remembered) {
      this.#remembered.delete(key);
      if (this.#env.now() >= remembered.until) return null;
      this.#remembered.set(key, remembered);
      return remembered.principal;
    }
    const underWay = this.#underWay.get(key) ?? this.#verify(this.#settings.jwksPublic, token, key);
    this.#underWay.set(key, underWay);
    return underWay;
  }

  async #verify(jwks: NonNullable<Settings["jwksPublic"]>, token: string, key: string): Promise<Principal | null> {
    const { jwtIssuer, jwtAudience } = this.#settings;
    try {
      const { createLocalJWKSet, jwtVerify } = await import("jose");
      this.#keys ??= createLocalJWKSet({ keys: jwks.keys.map((key) => ({ ...key }) as { kty: string }) });
      const { payload } = await jwtVerify(token, this.#keys, {
        algorithms: [...jwtAlgorithms],
        clockTolerance: leewaySeconds,
        currentDate: new Date(this.#env.now()),
        requiredClaims: ["exp", "sub"],
        ...(jwtIssuer !== "" && { issuer: jwtIssuer }),
        ...(jwtAudience !== "" && { audience: jwtAudience }),
      });
      const principal = principalOf(payload, this.#settings.allowedTenants);
      if (principal) this.#remember(key, { principal, until: ((payload.exp as number) + leewaySeconds) * 1000 });
      return principal;
    } catch {
      // The caller learns only that the token is invalid, not why.
      return null;
    } finally {
      this.#underWay.delete(key);
    }
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
