/** Who is calling: authenticated, and the only source of a tenant. A plain object, so that it crosses threads. */
export interface Principal {
  readonly tenant_id: string;
  readonly sub: string;
  readonly scopes: readonly string[];
  /** How the caller was authenticated. */
  readonly scheme: string;
  /** Who vouched for the caller; two issuers may use one subject. Empty for keys and for none. */
  readonly issuer: string;
}
