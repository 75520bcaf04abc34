import type { Principal } from "../../bus/protocol/principal.ts";
import type { JobOwner } from "../../storage/tables/jobs.ts";
import { type FreshDeps, refreshAccess } from "../auth/fresh-access.ts";
import { isRevoked } from "../auth/revoked.ts";

/** The caller who asks for a job of a skill, as its row keeps him. A run on behalf of a person asks for that person. */
export function jobOwner({ sub, scopes, scheme, issuer, on_behalf_of }: Principal): JobOwner {
  return { ...(on_behalf_of ?? { sub, scheme, issuer }), scopes };
}

/** True if who asked has lost access since: no more is spent for him. */
export async function isOwnerGone(
  tenant_id: string,
  { sub, scopes, scheme, issuer }: JobOwner,
  deps: FreshDeps,
  now: number,
): Promise<boolean> {
  const owner = { tenant_id, sub, scopes, scheme, issuer };
  await refreshAccess(owner, deps, now);
  return isRevoked(owner, deps, now);
}
