import type { TSchema } from "typebox";
import { createAjv } from "../bus/schema-validator.ts";
import { refuseNoParameters } from "../governance/arguments-problem.ts";
import type { SettingIssue } from "../governance/settings/settings-error.ts";
import type { Route } from "../http/route.ts";
import { refuseNoSchema } from "../http/validate.ts";
import type { PluginTool } from "../plugins/plugin.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";

// Schemas of svc's own are made into validators at their first use, and are known to be schemas by its tests. Those of plugins are tried
// at the start, where their author is there to hear of it: later each request and call would fail.

/** Which schemas of these plugins nothing can be held against. Empty when there are none. */
export function schemaIssues(plugins: readonly LoadedPlugin[]): readonly SettingIssue[] {
  return plugins.flatMap(({ from, plugin: { name, routes = [], tools = [] } }) =>
    [...routes.flatMap(problemsOfRoute), ...tools.flatMap(problemsOfTool)].map((says) => ({
      name: "SVC_PLUGINS",
      reason: `names ${from}: the plugin ${name} brings ${says}`,
    })),
  );
}

function problemsOfRoute(route: Route): string[] {
  const { method, path, params, query, headers, body, reply, otherReplies } = route;
  const of = (what: string, problem: string | null): string[] =>
    problem === null ? [] : [`the route ${method} ${path}, whose ${what} is no JSON Schema: ${problem}`];
  const whole = [
    ...of("params", problemOf(params, refuseNoSchema)),
    ...of("query", problemOf(query, refuseNoSchema)),
    ...of("headers", problemOf(headers, refuseNoShownSchema)),
    ...of("body", problemOf(body, refuseNoSchema)),
    ...[reply, ...otherReplies].flatMap(({ schema }) => of("reply", problemOf(schema, refuseNoShownSchema))),
  ];
  return whole.length > 0 ? whole : problemsOfNames(route);
}

function problemsOfTool(tool: PluginTool): string[] {
  const problem = problemOf(tool.parameters as unknown as TSchema, (schema) => {
    refuseNoShownSchema(schema);
    refuseNoParameters(tool);
  });
  return problem === null ? [] : [`the tool ${tool.name}, whose parameters are no JSON Schema: ${problem}`];
}

/** What is read by name has to have names. */
function problemsOfNames({ method, path, params, query, headers }: Route): string[] {
  const where = `the route ${method} ${path}`;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => String(name));
  return [
    ...(new Set(inPath).size < inPath.length ? [`${where}, which has one name for two parts of its path`] : []),
    ...inPath
      .filter((name) => !Object.hasOwn(propertiesOf(params), name))
      .map((name) => `${where}, whose params have no ${name}`),
    ...Object.entries({ query, headers })
      .filter(([, schema]) => schema !== null && !Object.hasOwn(schema, "properties"))
      .map(([what]) => `${where}, whose ${what} must have properties`),
  ];
}

function propertiesOf(schema: TSchema | null): object {
  return (schema as { properties?: object } | null)?.properties ?? {};
}

/** What the check throws of a schema; null when it throws nothing. */
function problemOf(schema: TSchema | null, check: (schema: TSchema) => void): string | null {
  if (schema === null) return null;
  try {
    check(schema);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The reference and models are shown it as JSON. */
function refuseNoShownSchema(schema: TSchema): void {
  const ajv = createAjv({ strict: false, logger: false });
  JSON.stringify(schema);
  if (ajv.validateSchema(schema) !== true) throw new Error(ajv.errorsText(undefined, { dataVar: "schema" }));
}
