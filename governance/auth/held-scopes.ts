import type { Principal } from "../../bus/protocol/principal.ts";
import type { RuntimeKeyRow } from "../../storage/tables/runtime-keys.ts";
import type { SignInGrantRow } from "../../storage/tables/sign-in-grants.ts";
import type { Settings } from "../settings/settings.ts";
import { type EntryPointHolders, entryPointScopes } from "./entry-point-scopes.ts";
import { type IssuerHolders, issuerScopes } from "./issuer-tokens.ts";
import { hasScopes } from "./scopes.ts";
import { isSignInScheme, type SignInGrants, signInScopes } from "./sign-in-scopes.ts";
import type { StoredAccess } from "./stored-access.ts";

/** What decides about the access of a principal: the settings, and the stored keys and sign-ins. */
export interface AccessDeps {
  readonly settings: Pick<Settings, "authMode" | "authApiKeys" | "allowedTenants" | "triggers"> &
    EntryPointHolders &
    IssuerHolders &
    SignInGrants;
  readonly access: Pick<StoredAccess, "keysOf" | "signInOf">;
}

/**
 * Returns the recorded principal with the scopes that it still holds (decision 226: later runs use no scope that was withdrawn).
 * Recorded scopes are intersected with the scopes of all keys of the same tenant and subject, configured or made at run time. For a
 * trigger or another issuer, its entry grants them, and for a sign-in, its entries. With on_behalf_of, that principal's keys or entries count.
 */
export function withHeldScopes(principal: Principal, deps: AccessDeps, now: number): Principal {
  const held = heldScopes(principal, deps, now);
  return held === null ? principal : { ...principal, scopes: commonScopes(principal, held) };
}

/** Returns the scopes that both a principal and a list grant. A broad scope on one side covers narrower scopes on the other. */
function commonScopes(principal: Pick<Principal, "scopes" | "scheme">, others: readonly string[]): readonly string[] {
  const { scopes: own } = principal;
  const grants = (scopes: readonly string[], scope: string) => hasScopes({ scopes, scheme: principal.scheme }, [scope]);
  return [
    ...new Set([...own.filter((scope) => grants(others, scope)), ...others.filter((scope) => grants(own, scope))]),
  ];
}

/**
 * Returns what a live key grants. The key of a signed-in person grants at most what the entries of the person grant; null if they grant
 * nothing at present (decision 246).
 */
export function keyScopes(
  tenant_id: string,
  { scopes, owner: { scheme } }: Pick<RuntimeKeyRow, "scopes" | "owner">,
  signIn: SignInGrantRow | undefined,
  settings: SignInGrants,
  now: number,
): readonly string[] | null {
  if (!isSignInScheme(scheme)) return scopes;
  const held = signInScopes({ tenant_id, scheme }, signIn, settings, now);
  return held && commonScopes({ scopes, scheme: "api_key" }, held);
}

/** Returns the scopes of each key of a subject that was made at run time and works at present. */
export function scopesOfKeys(
  tenantId: string,
  sub: string,
  { settings, access }: AccessDeps,
  now: number,
): readonly (readonly string[])[] {
  return access.keysOf(tenantId, sub, now).flatMap((row) => {
    const scopes = keyScopes(tenantId, row, access.signInOf(tenantId, row.owner.sub), settings, now);
    return scopes === null ? [] : [scopes];
  });
}

/** Returns the scopes that are granted at present; null if nothing defines scopes for this principal. */
function heldScopes(
  { tenant_id, on_behalf_of, ...self }: Principal,
  deps: AccessDeps,
  now: number,
): readonly string[] | null {
  const { settings, access } = deps;
  const { authMode, authApiKeys, triggers } = settings;
  const { scheme, sub, issuer } = on_behalf_of ?? self;
  if (scheme === "trigger")
    return triggers.find(({ id, tenant_id: of }) => of === tenant_id && sub === `trigger:${id}`)?.scopes ?? [];
  const ofPlugin = entryPointScopes({ tenant_id, sub, scheme }, settings);
  if (ofPlugin !== undefined) return ofPlugin ?? [];
  const ofIssuer = issuerScopes({ tenant_id, scheme, issuer }, settings);
  if (ofIssuer !== undefined) return ofIssuer ?? [];
  if (isSignInScheme(scheme))
    return signInScopes({ tenant_id, scheme }, access.signInOf(tenant_id, sub), settings, now) ?? [];
  if (scheme !== "api_key" || authMode !== "api_key") return null;
  const configured = authApiKeys.filter((key) => key.tenant_id === tenant_id && key.sub === sub);
  return [...configured.map(({ scopes }) => scopes), ...scopesOfKeys(tenant_id, sub, deps, now)].flat();
}
