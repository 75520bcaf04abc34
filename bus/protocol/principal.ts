/** Who is calling: authenticated, and the only source of a tenant. A plain object, so that it crosses threads. */
export interface Principal {
  readonly tenant_id: string;
  readonly sub: string;
  readonly scopes: readonly string[];
  /** How the caller was authenticated. */
  readonly scheme: string;
  /** Who vouched for the caller; two issuers may use one subject. Empty for keys and for none. */
  readonly issuer: string;
  /** Whose scopes these are, where nobody is there: who has written the job that runs. */
  readonly on_behalf_of?: { readonly sub: string; readonly scheme: string; readonly issuer: string };
}

/** Who a principal is, in one text: a subject is one person's only within who vouched for it. */
export function principalId({ scheme, issuer, sub }: Pick<Principal, "scheme" | "issuer" | "sub">): string {
  return JSON.stringify([scheme, issuer, sub]);
}
