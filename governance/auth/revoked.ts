import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/**
 * Whether who has asked for something could not ask for it any more: no key of theirs is configured, or their tenant is not let in
 * (decision 100). Of what runs on behalf of somebody, that one is looked at.
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
