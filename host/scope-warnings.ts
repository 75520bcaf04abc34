import { nearest } from "../bus/nearest.ts";
import { bypassScopes } from "../governance/auth/permission-modes.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { scopesOf } from "../http/route.ts";
import { allRoutes } from "../http/routes/all.ts";
import { type LoadedPlugin, pluginRoutes } from "./plugin-seams.ts";

/**
 * What is most likely a slip among the scopes of keys and triggers, each a sentence that names the setting and the entry. Policies of
 * manifests may ask for scopes of any name, so that one that is like no other is taken as it is.
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

/** The same for the scopes of a credential that is being made. Scopes of plugins are not looked at: what is near none of svc's own is taken. */
export function doubtsOfScopes(scopes: readonly string[]): readonly string[] {
  const known = knownScopes([]);
  return scopes.flatMap((scope) => {
    const doubt = doubtOf(scope, known);
    return doubt === null ? [] : [`No route of svc asks for the scope ${scope}. ${doubt}`];
  });
}

function knownScopes(plugins: readonly LoadedPlugin[]): readonly string[] {
  // Keys are the same whatever this process is there for.
  const everything = { manifestSource: "store", triggers: null, duties: ["api"] } as const;
  const ofRoutes = scopesOf(allRoutes(everything, pluginRoutes(plugins)));
  return ["*", "admin", ...ofRoutes, ...bypassScopes];
}

function doubtOf(scope: string, known: readonly string[]): string | null {
  // Whoever may write may read, also where nothing is to be written.
  if (known.includes(scope) || known.includes(scope.replace(/:write$/, ":read"))) return null;
  if (scope.endsWith("*")) return "Only * alone matches other scopes.";
  const near = nearest(scope, known);
  return near === null ? null : `Did you mean ${near}?`;
}
