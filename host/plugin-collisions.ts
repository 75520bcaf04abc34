import { demoRoute } from "../actors/models/built-in-routes.ts";
import { patterns } from "../actors/run/patterns/patterns.ts";
import { builtInContextSources } from "../actors/run/prompt/context-source.ts";
import { builtInTools, sectionToolSpecs } from "../actors/tools/registry/built-in.ts";
import { builtInKinds } from "../actors/workflow/kinds/built-in.ts";
import { errorTable } from "../bus/errors.ts";
import { entryPoints } from "../bus/frames/entry-points.ts";
import { auditTypes } from "../governance/audit-types.ts";
import { builtInControls } from "../governance/controls/built-in.ts";
import { metricTable } from "../governance/metrics.ts";
import { allDuties } from "../governance/settings/duties.ts";
import { verifierSchemes } from "../governance/settings/jwt-verifiers.ts";
import { keyedProviders } from "../governance/settings/model-options.ts";
import { settingNames } from "../governance/settings/settings.ts";
import type { SettingIssue } from "../governance/settings/settings-error.ts";
import { ownScreens } from "../http/pages/console-screens.ts";
import { type Route, scopesOf } from "../http/route.ts";
import { allRoutes } from "../http/routes/all.ts";
import { taskResultToolName, taskToolName } from "../manifests/sections/delegation.ts";
import { specifiedPatterns } from "../manifests/sections/pattern.ts";
import type { Plugin } from "../plugins/plugin.ts";
import { migrations } from "../storage/migrations/list.ts";
import { createdTables } from "../storage/store/migration.ts";
import { textCorpora } from "../storage/tables/text-corpora.ts";
import { actorKinds } from "./actor-deps.ts";
import { commandNames } from "./command-names.ts";
import { taskNames } from "./periodic-tasks.ts";
import { type LoadedPlugin, pluginScopes } from "./plugin-seams.ts";
import { scopesOfSvc } from "./scope-warnings.ts";

/** The schemes of principals of svc. */
const ownSchemes = [
  ..."none,anonymous,api_key,jwt,github,github_actions,google,trigger,cron,eval,workflow".split(","),
  ...verifierSchemes,
];

/** Names, by kind, that must be unique in the deployment. */
type Claims = Readonly<Record<string, readonly string[]>>;

/**
 * Returns the conflicts of the plugins with svc and each other: names that are already in use. Empty if they can be loaded
 * together.
 */
export function collisions(plugins: readonly LoadedPlugin[]): readonly SettingIssue[] {
  const owners = new Map<string, string>();
  const claim = (owner: string, claims: Claims): string[] =>
    Object.entries(claims).flatMap(([what, names]) =>
      names.flatMap((name) => {
        const before = owners.get(`${what} ${name}`);
        owners.set(`${what} ${name}`, before ?? owner);
        return before === undefined ? [] : [`brings the ${what} ${name}, which ${before} has already`];
      }),
    );
  claim("svc", builtInClaims());

  const routes: OwnedRoute[] = allRoutes({ manifestSource: "store", triggers: null, duties: allDuties }).map(
    (route) => ({
      owner: "svc",
      route,
    }),
  );
  const scopes = [...scopesOfSvc(), ...pluginScopes(plugins)];
  return plugins.flatMap(({ from, plugin }) => {
    const owner = `the plugin ${plugin.name} (${from})`;
    const found = [
      ...claim(owner, claimsOf(plugin)),
      ...undeclaredTables(plugin),
      ...routeCollisions(plugin, owner, routes),
      ...undeclaredScopes(plugin, scopes),
    ];
    return found.map((says) => ({ name: "SVC_PLUGINS", reason: `names ${from}: the plugin ${plugin.name} ${says}` }));
  });
}

function builtInClaims(): Claims {
  return {
    setting: settingNames(),
    table: [...migrations.flatMap(createdTables), "schema_revisions"],
    migration: migrations.map(({ revision }) => revision),
    tool: [...[...builtInTools, ...sectionToolSpecs].map(({ name }) => name), taskToolName, taskResultToolName],
    "actor kind": ["host", ...actorKinds.map(({ kind }) => kind)],
    pattern: [...new Set([...specifiedPatterns, ...patterns.keys()])],
    "step kind": builtInKinds.map(({ kind }) => kind),
    "model provider": [...keyedProviders, demoRoute.provider],
    task: taskNames,
    control: builtInControls.map(({ name }) => name),
    "context source": builtInContextSources.map(({ name }) => name),
    metric: Object.keys(metricTable),
    scope: scopesOfSvc(),
    command: [...commandNames, "help"],
    "audit type": Object.keys(auditTypes),
    "error code": Object.keys(errorTable),
    "entry point": Object.keys(entryPoints),
    scheme: ownSchemes,
    "console screen": ownScreens,
    "text corpus": textCorpora.map(({ corpus }) => corpus),
  };
}

function claimsOf(plugin: Plugin): Claims {
  const named = (things: readonly { readonly name: string }[] = []): string[] => things.map(({ name }) => name);
  return {
    name: [plugin.name],
    setting: named(plugin.settings),
    table: named(plugin.tables),
    migration: (plugin.migrations ?? []).map(({ revision }) => revision),
    tool: named(plugin.tools),
    "actor kind": (plugin.kinds ?? []).map(({ kind }) => kind),
    pattern: Object.keys(plugin.patterns ?? {}),
    "step kind": (plugin.stepKinds ?? []).map(({ kind }) => kind),
    "model provider": named(plugin.modelProviders),
    task: named(plugin.tasks),
    hook: named(plugin.hooks),
    "tool source": named(plugin.toolSources),
    control: named(plugin.controls),
    "context source": named(plugin.contextSources),
    metric: Object.keys(plugin.metrics ?? {}),
    scope: Object.keys(plugin.scopes ?? {}),
    command: Object.keys(plugin.commands ?? {}),
    "audit type": named(plugin.auditTypes),
    "error code": (plugin.errorCodes ?? []).map(({ code }) => code),
    "entry point": Object.keys(plugin.entryPoints ?? {}),
    scheme: [...new Set(Object.values(plugin.entryPoints ?? {}).flatMap(({ scheme }) => scheme ?? []))],
    "outbox kind": Object.keys(plugin.outbox ?? {}),
    "console screen": named(plugin.console?.screens),
    "text corpus": (plugin.textCorpora ?? []).map(({ corpus }) => corpus),
  };
}

/** Checks that a plugin declares exactly the tables that its migrations create, because conflicts are found by declared names. */
function undeclaredTables({ tables = [], migrations: own = [] }: Plugin): string[] {
  const made = new Set(own.flatMap(createdTables));
  const declared = new Set(tables.map(({ name }) => name));
  return [
    ...[...made]
      .filter((name) => !declared.has(name))
      .map((name) => `makes the table ${name}, which is not in its tables`),
    ...[...declared]
      .filter((name) => !made.has(name))
      .map((name) => `has the table ${name}, which none of its migrations makes`),
  ];
}

/** Checks that every scope of a route is declared: documents and warnings know declared scopes only. */
function undeclaredScopes({ routes = [] }: Plugin, declared: readonly string[]): string[] {
  return routes.flatMap(({ method, path, access }) =>
    scopesOf([{ access }])
      .filter((scope) => !declared.includes(scope))
      .map((scope) => `has the route ${method} ${path}, whose scope ${scope} is in no plugin's scopes`),
  );
}

interface OwnedRoute {
  readonly owner: string;
  readonly route: Route;
}

/** Returns conflicts of the plugin's routes, and adds these routes to `known`. */
function routeCollisions({ routes = [] }: Plugin, owner: string, known: OwnedRoute[]): string[] {
  return routes.flatMap((route) => {
    const other = known.find((one) => overlap(one.route, route, one.owner === owner));
    known.push({ owner, route });
    if (other === undefined) return [];
    return [
      `brings the route ${route.method} ${route.path}, and ${other.owner} has ${other.route.method} ${other.route.path}`,
    ];
  });
}

/**
 * True if one request could match both routes. Within one owner, a literal segment takes precedence over a parameter. Between
 * owners it is a conflict, and so are two names for the parameter at one position.
 */
function overlap(a: Route, b: Route, isSameOwner: boolean): boolean {
  const left = a.path.split("/");
  const right = b.path.split("/");
  let isSamePlace = true;
  for (const [at, segment] of left.entries()) {
    const other = right[at];
    if (other === undefined) return false;
    if (segment === other) continue;
    const parameters = [segment, other].filter((one) => one.startsWith("{")).length;
    if (parameters === 2 && isSamePlace) return true;
    if (parameters === 0 || (parameters === 1 && isSameOwner)) return false;
    isSamePlace = false;
  }
  return left.length === right.length && a.method === b.method;
}
