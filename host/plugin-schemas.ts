import type { TSchema } from "typebox";
import { createAjv } from "../bus/schema-validator.ts";
import { refuseNoParameters } from "../governance/arguments-problem.ts";
import type { SettingIssue } from "../governance/settings/settings-error.ts";
import type { Route } from "../http/route.ts";
import { refuseNoSchema } from "../http/validate.ts";
import type { PluginTool } from "../plugins/plugin.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";

// Compiles the schemas of plugins at the start, so that their author sees errors there rather than in each request. The schemas
// of svc itself are compiled on first use and are covered by tests.

/** Returns the invalid schemas of the plugins; empty if there are none. */
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
    problem === null ? [] : [`the route ${method} ${path}, whose ${what} is an invalid JSON Schema: ${problem}`];
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
  return problem === null ? [] : [`the tool ${tool.name}, whose parameters are an invalid JSON Schema: ${problem}`];
}

/** Checks that schemas of named values declare their names. */
function problemsOfNames({ method, path, params, query, headers }: Route): string[] {
  const where = `the route ${method} ${path}`;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => String(name));
  return [
    ...(new Set(inPath).size < inPath.length ? [`${where}, which has two path parameters of the same name`] : []),
    ...inPath
      .filter((name) => !Object.hasOwn(propertiesOf(params), name))
      .map((name) => `${where}, whose params schema lacks the path parameter ${name}`),
    ...Object.entries({ query, headers })
      .filter(([, schema]) => schema !== null && !Object.hasOwn(schema, "properties"))
      .map(([what]) => `${where}, whose ${what} schema must have properties`),
  ];
}

function propertiesOf(schema: TSchema | null): object {
  return (schema as { properties?: object } | null)?.properties ?? {};
}

/** Returns the error of a check; null if it passes. */
function problemOf(schema: TSchema | null, check: (schema: TSchema) => void): string | null {
  if (schema === null) return null;
  try {
    check(schema);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Checks a schema that the API reference or a model receives as JSON. */
function refuseNoShownSchema(schema: TSchema): void {
  const ajv = createAjv({ strict: false, logger: false });
  JSON.stringify(schema);
  if (ajv.validateSchema(schema) !== true) throw new Error(ajv.errorsText(undefined, { dataVar: "schema" }));
}
