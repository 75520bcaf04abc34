import type { JWTPayload, LocalJWKSet } from "jose";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { isScope, isSubject } from "../settings/api-keys.ts";
import { jwtAlgorithms } from "../settings/jwks.ts";
import { hashToken } from "../settings/key-token.ts";
import type { Settings } from "../settings/settings.ts";
import { isTenantId } from "../settings/tenant-id.ts";

/** Clocks may differ by this much. */
const leewaySeconds = 60;
/** Callers that are remembered; about 1 KB each. */
const rememberedMax = 4096;
const scopesMax = 256;
/** Three parts of base64url: a signed token, and none that is encrypted or unsigned. */
const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

interface Remembered {
  readonly principal: Principal;
  /** Epoch milliseconds; from then on the token is expired, leeway included. */
  readonly until: number;
}

/**
 * Verifies tokens against SVC_JWKS_PUBLIC and remembers the good ones until they expire, under their hash, the least recently
 * used first to go. Headers of a token that point to keys elsewhere are never followed.
 */
export class JwtVerifier {
  readonly #env: Env;
  readonly #settings: Settings;
  /** The keys in the form that the verifier takes; made with the first token, as few deployments have both keys and tokens. */
  #keys: LocalJWKSet | null = null;
  /** In the order of their last use. */
  readonly #remembered = new Map<string, Remembered>();
  /** Tokens that are being verified now, so that a burst with one new token verifies it once. */
  readonly #underWay = new Map<string, Promise<Principal | null>>();

  constructor(settings: Settings, env: Env) {
    this.#settings = settings;
    this.#env = env;
  }

  /** The caller that the token names, null when it is not good. A promise only for a token that is not remembered. */
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
      // Whatever is wrong with a token, its bearer is told no more than that.
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

/** The caller of verified claims, null when they do not name one tenant and one subject. */
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

/** `scope`, words between spaces, and `scopes`, a list; null when one of them is anything else. */
function scopesOf({ scope = "", scopes = [] }: JWTPayload): readonly string[] | null {
  if (typeof scope !== "string" || !Array.isArray(scopes)) return null;
  const all = [...scope.split(" ").filter((word) => word !== ""), ...scopes];
  if (all.length > scopesMax || !all.every((item) => typeof item === "string" && isScope(item))) return null;
  return [...new Set<string>(all)];
}
