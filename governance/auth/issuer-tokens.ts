import type { JWTPayload } from "jose";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Outgoing } from "../egress/outgoing.ts";
import { isSubject } from "../settings/api-keys.ts";
import { jwtAlgorithms } from "../settings/jwks.ts";
import { type TokenIssuer, verifierSchemes } from "../settings/jwt-verifiers.ts";
import type { Settings } from "../settings/settings.ts";
import { isTenantId } from "../settings/tenant-id.ts";
import { type IssuerKeys, RemoteKeys } from "./remote-keys.ts";

// Tokens of the issuers in SVC_JWT_VERIFIERS. The entry of an issuer decides about tenant and scopes; claims never add a scope.

const leewaySeconds = 60;

/** A verified token of an issuer. */
export interface IssuerToken {
  readonly payload: JWTPayload;
  readonly principal: Principal | null;
  /** When the keys that verified it are no longer used, on the monotonic clock. */
  readonly keysUntil: number;
}

/** Verifies tokens of one issuer. */
export class IssuerTokens {
  readonly #entry: TokenIssuer;
  readonly #allowedTenants: readonly string[];
  readonly #env: Pick<Env, "now">;
  readonly #keys: RemoteKeys;

  constructor(
    entry: TokenIssuer,
    settings: Pick<Settings, "allowedTenants">,
    env: Pick<Env, "now" | "monotonic">,
    outgoing: Pick<Outgoing, "whole">,
  ) {
    this.#entry = entry;
    this.#allowedTenants = settings.allowedTenants;
    this.#env = env;
    this.#keys = new RemoteKeys(outgoing, env, entry.jwksUrl);
  }

  /** Returns a verified token; null if its key is unknown. Throws for others, and issuer_unavailable without keys. */
  async verify(token: string): Promise<IssuerToken | null> {
    const { errors } = await import("jose");
    for (let keys: IssuerKeys | null = await this.#keys.current(); keys !== null; ) {
      try {
        const payload = await this.#payloadOf(token, keys);
        return { payload, principal: this.#principalOf(payload), keysUntil: keys.until };
      } catch (error) {
        // The issuer may have begun to sign with a key that is not known here.
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
        keys = await this.#keys.newerThan(keys);
      }
    }
    return null;
  }

  async #payloadOf(token: string, { keys }: IssuerKeys): Promise<JWTPayload> {
    const { jwtVerify } = await import("jose");
    const { scheme, issuer, audiences } = this.#entry;
    const { payload } = await jwtVerify(token, keys, {
      ...{ algorithms: [...jwtAlgorithms], issuer, requiredClaims: ["exp", "iat", "sub"] },
      ...{ clockTolerance: leewaySeconds, currentDate: new Date(this.#env.now()) },
      // Access tokens of Cognito name their client in client_id, and have no aud.
      ...(scheme !== "cognito" && { audience: [...audiences] }),
    });
    return payload;
  }

  #principalOf(claims: JWTPayload): Principal | null {
    const { scheme, issuer, audiences, tenant: ofEntry, scopes } = this.#entry;
    const { sub, iat = Number.POSITIVE_INFINITY, tenant, tenant_id, token_use, client_id } = claims;
    if (iat > this.#env.now() / 1_000 + leewaySeconds) return null;
    const isForUs = token_use === "access" && audiences.some((audience) => audience === client_id);
    if (scheme === "cognito" && !isForUs) return null;
    if (ofEntry === null && tenant !== undefined && tenant_id !== undefined && tenant !== tenant_id) return null;
    const tenantId = ofEntry ?? tenant ?? tenant_id;
    if (typeof tenantId !== "string" || !isTenantId(tenantId)) return null;
    if (this.#allowedTenants.length > 0 && !this.#allowedTenants.includes(tenantId)) return null;
    return typeof sub === "string" && isSubject(sub) ? { tenant_id: tenantId, sub, scopes, scheme, issuer } : null;
  }
}

/** The part of the settings that defines the principals of other issuers. */
export type IssuerHolders = Partial<Pick<Settings, "jwtVerifiers">>;

/**
 * Returns the scopes that SVC_JWT_VERIFIERS grants to a recorded principal; null if no entry admits it any more, and undefined if
 * it is not of another issuer.
 */
export function issuerScopes(
  { tenant_id, scheme, issuer }: Pick<Principal, "tenant_id" | "scheme" | "issuer">,
  { jwtVerifiers = [] }: IssuerHolders,
): readonly string[] | null | undefined {
  if (!verifierSchemes.some((each) => each === scheme)) return undefined;
  const entry = jwtVerifiers.find((each) => each.issuer === issuer && each.scheme === scheme);
  return entry !== undefined && (entry.tenant ?? tenant_id) === tenant_id ? entry.scopes : null;
}
