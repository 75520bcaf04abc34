import type { Principal } from "../../bus/protocol/principal.ts";
import { withHeldScopes } from "../../governance/auth/held-scopes.ts";
import type { JobOwner } from "../../storage/tables/jobs.ts";
import type { EvalsDeps } from "./deps.ts";

/** Returns the principal of the durable runs of an evaluation: `eval`, with the scopes that the person who asked still holds. */
export function evalPrincipal(
  tenant_id: string,
  { scopes, sub, scheme, issuer }: JobOwner,
  deps: EvalsDeps,
  now: number,
): Principal {
  const own = { tenant_id, sub: "eval", scopes, scheme: "eval", issuer: "", on_behalf_of: { sub, scheme, issuer } };
  return withHeldScopes(own, deps, now);
}
