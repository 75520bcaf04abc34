import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/**
 * True if the principal lost access: its key was removed from the settings, or its tenant is no longer allowed. Its durable runs
 * then fail with principal_revoked (decision 100). With on_behalf_of, that principal is checked.
 */
export function isRevoked(
  { tenant_id, on_behalf_of, ...self }: Principal,
  { authMode, authApiKeys, allowedTenants }: Pick<Settings, "authMode" | "authApiKeys" | "allowedTenants">,
): boolean {
  const { scheme, sub } = on_behalf_of ?? self;
  if (scheme === "none") return false;
  if (scheme === "api_key" && authMode === "api_key")
    if (!authApiKeys.some((key) => key.tenant_id === tenant_id && key.sub === sub)) return true;
  return allowedTenants.length > 0 && !allowedTenants.includes(tenant_id);
}
