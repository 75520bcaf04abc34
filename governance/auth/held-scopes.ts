import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";
import { hasScopes } from "./scopes.ts";

type Holders = Pick<Settings, "authMode" | "authApiKeys" | "triggers">;

/**
 * Returns the recorded principal with the scopes that it still holds (decision 226: later runs use no scope that was withdrawn).
 * Recorded scopes are intersected with the scopes of all configured keys of the same tenant and subject. For a trigger, its
 * entry grants them; with on_behalf_of, that principal's keys count.
 */
export function withHeldScopes(principal: Principal, settings: Holders): Principal {
  const held = heldScopes(principal, settings);
  if (held === null) return principal;
  const { scopes: recorded } = principal;
  const grants = (scopes: readonly string[], scope: string) => hasScopes({ ...principal, scopes }, [scope]);
  // Intersect in both directions: a broad scope on one side covers narrower scopes on the other.
  const both = [...recorded.filter((scope) => grants(held, scope)), ...held.filter((scope) => grants(recorded, scope))];
  return { ...principal, scopes: [...new Set(both)] };
}

/** Returns the scopes that the settings grant; null if the settings do not define scopes for this principal. */
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
