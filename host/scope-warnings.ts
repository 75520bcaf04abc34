import { nearest } from "../bus/nearest.ts";
import { bypassScopes } from "../governance/auth/permission-modes.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { scopesOf } from "../http/route.ts";
import { allRoutes } from "../http/routes/all.ts";
import { type LoadedPlugin, pluginScopes } from "./plugin-seams.ts";

/**
 * Returns warnings about scopes of keys and triggers that look misspelt, one sentence each with the setting and entry. Policies
 * may require arbitrary scopes, so a scope unlike any known one is accepted.
 */
export function warningsOfScopes(settings: Settings, plugins: readonly LoadedPlugin[]): readonly string[] {
  const known = knownScopes(plugins);
  const holders = [
    ...settings.authApiKeys.map(({ entry, scopes }) => ({ who: `SVC_AUTH_API_KEYS: entry ${entry}`, scopes })),
    ...settings.triggers.map(({ id, scopes }) => ({ who: `SVC_TRIGGERS: ${id}`, scopes })),
  ];
  return holders.flatMap(({ who, scopes }) =>
    scopes.flatMap((scope) => {
      const doubt = doubtOf(scope, known);
      return doubt === null ? [] : [`${who} has the scope ${scope}, which no route asks for. ${doubt}`];
    }),
  );
}

/** Returns such warnings for a credential that is being created. Scopes of plugins are unknown here. */
export function doubtsOfScopes(scopes: readonly string[]): readonly string[] {
  const known = knownScopes([]);
  return scopes.flatMap((scope) => {
    const doubt = doubtOf(scope, known);
    return doubt === null ? [] : [`No route of svc asks for the scope ${scope}. ${doubt}`];
  });
}

function knownScopes(plugins: readonly LoadedPlugin[]): readonly string[] {
  return ["*", "admin", ...scopesOfSvc(), ...pluginScopes(plugins)];
}

/** Returns the scopes that svc itself asks for. */
export function scopesOfSvc(): readonly string[] {
  // Credentials are shared by all processes, so consider the routes of every duty.
  const everything = { manifestSource: "store", triggers: null, duties: ["api"] } as const;
  return [...scopesOf(allRoutes(everything)), ...bypassScopes];
}

function doubtOf(scope: string, known: readonly string[]): string | null {
  // `x:write` grants `x:read`, even if no route requires `x:write`.
  if (known.includes(scope) || known.includes(scope.replace(/:write$/, ":read"))) return null;
  if (scope.endsWith("*")) return "Only * alone matches other scopes.";
  const near = nearest(scope, known);
  return near === null ? null : `Did you mean ${near}?`;
}
