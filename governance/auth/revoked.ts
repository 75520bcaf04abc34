import type { Principal } from "../../bus/protocol/principal.ts";
import { entryPointScopes } from "./entry-point-scopes.ts";
import { type AccessDeps, scopesOfKeys } from "./held-scopes.ts";
import { issuerScopes } from "./issuer-tokens.ts";
import { isSignInScheme, signInScopes } from "./sign-in-scopes.ts";

/**
 * True if the principal lost access: its keys are gone, the entries of its sign-in or issuer were removed from the settings, its last sign-in is too
 * old, or its tenant is no longer allowed. Its durable runs then fail with principal_revoked (decision 100). With on_behalf_of, that
 * principal is checked.
 */
export function isRevoked({ tenant_id, on_behalf_of, ...self }: Principal, deps: AccessDeps, now: number): boolean {
  const { settings, access } = deps;
  const { authMode, authApiKeys, allowedTenants } = settings;
  const { scheme, sub, issuer } = on_behalf_of ?? self;
  if (scheme === "none") return false;
  if (scheme === "api_key" && authMode === "api_key") {
    const isConfigured = authApiKeys.some((key) => key.tenant_id === tenant_id && key.sub === sub);
    if (!isConfigured && scopesOfKeys(tenant_id, sub, deps, now).length === 0) return true;
  }
  if (entryPointScopes({ tenant_id, sub, scheme }, settings) === null) return true;
  if (issuerScopes({ tenant_id, scheme, issuer }, settings) === null) return true;
  if (isSignInScheme(scheme)) {
    const signIn = access.signInOf(tenant_id, sub);
    if (signInScopes({ tenant_id, scheme }, signIn, settings, now) === null) return true;
  }
  return allowedTenants.length > 0 && !allowedTenants.includes(tenant_id);
}
