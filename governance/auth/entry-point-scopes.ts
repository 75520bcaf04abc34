import type { Principal } from "../../bus/protocol/principal.ts";
import type { Settings } from "../settings/settings.ts";

/** The part of the settings that defines the principals of plugins. */
export type EntryPointHolders = Partial<Pick<Settings, "entryPoints">>;

/**
 * Returns the scopes that a plugin's settings grant to a principal; null if they grant none, and undefined if no plugin makes principals
 * of this scheme.
 */
export function entryPointScopes(
  { tenant_id, sub, scheme }: Pick<Principal, "tenant_id" | "sub" | "scheme">,
  { entryPoints = [] }: EntryPointHolders,
): readonly string[] | null | undefined {
  const ofScheme = entryPoints.filter((rules) => rules.scheme === scheme);
  if (ofScheme.length === 0) return undefined;
  const grants = ofScheme.flatMap((rules) => rules.grants);
  const found = grants.filter((grant) => grant.tenant_id === tenant_id && sub.startsWith(grant.sub));
  return found.length === 0 ? null : [...new Set(found.flatMap(({ scopes }) => scopes))];
}
