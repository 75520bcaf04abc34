import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";
import { hasScopes } from "./scopes.ts";

type Holders = Pick<Settings, "authMode" | "authApiKeys" | "triggers">;

/**
 * The principal of work that was recorded, with the scopes that it has kept (decision 226): those recorded, cut to what the configured
 * keys of its tenant and name grant together, and for a trigger to what its entry grants. Work on behalf of somebody goes by that one.
 */
export function withHeldScopes(principal: Principal, settings: Holders): Principal {
  const held = heldScopes(principal, settings);
  if (held === null) return principal;
  const { scopes: recorded } = principal;
  const grants = (scopes: readonly string[], scope: string) => hasScopes({ ...principal, scopes }, [scope]);
  // A wide scope on either side stands for the narrow ones on the other.
  const both = [...recorded.filter((scope) => grants(held, scope)), ...held.filter((scope) => grants(recorded, scope))];
  return { ...principal, scopes: [...new Set(both)] };
}

/** What the settings grant to the one whose scopes these are; null where they say nothing about that one. */
function heldScopes(
  { tenant_id, on_behalf_of, ...self }: Principal,
  { authMode, authApiKeys, triggers }: Holders,
): readonly string[] | null {
  const { scheme, sub } = on_behalf_of ?? self;
  if (scheme === "trigger")
    return triggers.find(({ id, tenant_id: of }) => of === tenant_id && sub === `trigger:${id}`)?.scopes ?? [];
  if (scheme !== "api_key" || authMode !== "api_key") return null;
  return authApiKeys.filter((key) => key.tenant_id === tenant_id && key.sub === sub).flatMap(({ scopes }) => scopes);
}
