import type { Principal } from "../../bus/protocol/principal.ts";
import { withHeldScopes } from "../../governance/auth/held-scopes.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import type { JobOwner } from "../../storage/tables/jobs.ts";
import type { WorkflowDeps } from "./deps.ts";

/**
 * Returns the principal of the steps of a run: its starter, with the scopes that both the starter and the author of the revision still hold
 * (decision 259: neither lends the other a scope).
 */
export function stepPrincipal(
  starter: Principal,
  { sub, scopes, scheme, issuer }: JobOwner,
  deps: WorkflowDeps,
  now: number,
): Principal {
  const { tenant_id } = starter;
  const own = withHeldScopes(starter, deps, now);
  if (scheme === "none") return own;
  const author = withHeldScopes({ tenant_id, sub, scopes, scheme, issuer }, deps, now);
  if (own.scheme === "none") return own;
  const both = [
    ...own.scopes.filter((scope) => hasScopes(author, [scope])),
    ...author.scopes.filter((scope) => hasScopes(own, [scope])),
  ];
  return { ...own, scopes: [...new Set(both)] };
}
