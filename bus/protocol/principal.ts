/** The authenticated caller, the only source of a tenant. A plain object, so that it crosses threads. */
export interface Principal {
  readonly tenant_id: string;
  readonly sub: string;
  readonly scopes: readonly string[];
  /** How the caller was authenticated. */
  readonly scheme: string;
  /**
   * The issuer of the caller's identity; two issuers may use the same subject. Empty for API keys and without
   * authentication.
   */
  readonly issuer: string;
  /** The author of a job, or the requester of an evaluation. Its runs have their scopes. Absent for callers in person. */
  readonly on_behalf_of?: { readonly sub: string; readonly scheme: string; readonly issuer: string };
  /** The key that authenticated the caller, if it was made while the server ran. */
  readonly key?: CallerKey;
}

/** A key that was made while the server ran. */
export interface CallerKey {
  readonly id: string;
  /** `principalId` of the principal that made it, or that made the first key above it. */
  readonly owner: string;
}

/** Returns the owner of a caller's key, as `principalId` has it, or the caller itself. */
export function responsibleId(principal: Pick<Principal, "scheme" | "issuer" | "sub" | "key">): string {
  return principal.key?.owner ?? principalId(principal);
}

/** Returns a unique text for a principal; subjects are unique only within scheme and issuer. */
export function principalId({ scheme, issuer, sub }: Pick<Principal, "scheme" | "issuer" | "sub">): string {
  return JSON.stringify([scheme, issuer, sub]);
}
