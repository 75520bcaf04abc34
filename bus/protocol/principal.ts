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
  /** The author of a job, whose scopes its runs have; absent for callers in person. */
  readonly on_behalf_of?: { readonly sub: string; readonly scheme: string; readonly issuer: string };
}

/** Returns a unique text for a principal; subjects are unique only within scheme and issuer. */
export function principalId({ scheme, issuer, sub }: Pick<Principal, "scheme" | "issuer" | "sub">): string {
  return JSON.stringify([scheme, issuer, sub]);
}
