import type { NamedGrant } from "./entries.ts";
import { type SignInDetails, signInRefusal } from "./refusal.ts";

/**
 * Returns the one tenant that the entries grant, with the scopes of all its entries. Refuses with tenant_not_granted if they do not grant
 * the `wanted` one, and with tenant_ambiguous if they grant several and none is wanted.
 */
export function grantOf(grants: readonly NamedGrant[], wanted: string | null, detail: SignInDetails = {}): NamedGrant {
  const tenants = [...new Set(grants.map(({ tenant }) => tenant))];
  const tenant = wanted ?? (tenants.length === 1 ? tenants[0] : undefined);
  if (tenant === undefined) throw signInRefusal("tenant_ambiguous", { ...detail, tenants });
  if (!tenants.includes(tenant)) throw signInRefusal("tenant_not_granted", detail);
  const own = grants.filter((grant) => grant.tenant === tenant);
  const scopes = own.flatMap((grant) => grant.scopes);
  return { tenant, scopes: [...new Set(scopes)], entries: own.flatMap(({ entries }) => entries) };
}
