import { existsSync } from "node:fs";
import { errorTable, isErrorStatus, type PluginErrorCode } from "../bus/errors.ts";
import { isPlainData } from "../governance/settings/setting.ts";
import { ownedKinds } from "../http/route.ts";
import { toolEffects, toolRisks } from "../manifests/registries.ts";
import type { Plugin } from "../plugins/plugin.ts";
import { isReserved, type Migration } from "../storage/store/migration.ts";

// Validates the exports of a plugin before use, because a plugin may be untyped JavaScript. The checks cover what the seams rely
// on.

/** Returns the problems of a value, each beginning with its path; empty if it is valid. */
type Check = (value: unknown, where: string) => string[];

/** Returns why the export `plugin` of a file is invalid; empty if it is valid. */
export function shapeProblems(exported: unknown): string[] {
  if (exported === undefined) return ["it has no export named plugin"];
  const problems = plugin(exported, "plugin");
  return problems.length > 0 ? problems : problemsOfNames(exported as Plugin);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function is(words: string, holds: (value: unknown) => boolean): Check {
  return (value, where) => (holds(value) ? [] : [`${where} must be ${words}`]);
}

const text = is("a text", (value) => typeof value === "string" && value.trim() !== "");
const anyText = is("a text, empty or not", (value) => typeof value === "string");
const flag = is("true or false", (value) => typeof value === "boolean");
const callable = is("a function", (value) => typeof value === "function");
const json = is("an object", isObject);
const count = is("a whole number above 0", (value) => Number.isSafeInteger(value) && (value as number) > 0);

function form(pattern: RegExp): Check {
  return is(`a text of the form ${pattern.source}`, (value) => typeof value === "string" && pattern.test(value));
}

function oneOf(words: readonly string[]): Check {
  return is(`one of ${words.join(", ")}`, (value) => words.includes(value as string));
}

function optional(check: Check): Check {
  return (value, where) => (value === undefined ? [] : check(value, where));
}

function orNull(check: Check): Check {
  return (value, where) => (value === null ? [] : check(value, where));
}

function list(check: Check): Check {
  return (value, where) =>
    // Array.from also visits the holes of a sparse array.
    Array.isArray(value)
      ? Array.from(value).flatMap((item, at) => check(item, `${where}[${at}]`))
      : [`${where} must be a list`];
}

function map(names: RegExp, check: Check): Check {
  return (value, where) =>
    isObject(value)
      ? Object.entries(value).flatMap(([key, item]) =>
          names.test(key)
            ? check(item, `${where}.${key}`)
            : [`${where} has the key ${key}, which does not match ${names.source}`],
        )
      : [`${where} must be an object`];
}

/** An object with at least these fields. */
function object(fields: Readonly<Record<string, Check>>): Check {
  return (value, where) =>
    isObject(value)
      ? Object.entries(fields).flatMap(([key, check]) => check(value[key], `${where}.${key}`))
      : [`${where} must be an object`];
}

/** An object with a name, and at least one of these functions. */
function withOne(functions: readonly string[], name: Check = text): Check {
  const check = object({ name, ...Object.fromEntries(functions.map((key) => [key, optional(callable)])) });
  return (value, where) => {
    const problems = check(value, where);
    const hasOne = isObject(value) && functions.some((key) => value[key] !== undefined);
    return problems.length > 0 || hasOne ? problems : [`${where} must have ${inWords(functions)}`];
  };
}

function inWords(names: readonly string[]): string {
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

const setting = object({
  name: form(/^(?!SVC_SECRET_)[A-Z][A-Z0-9]*_[A-Z0-9_]*$/),
  kind: text,
  default: is("plain data, or null for none", isPlainData),
  accepts: anyText,
  help: text,
  secret: flag,
  testOnly: optional(flag),
  literals: optional(callable),
  read: callable,
});
const step: Check = (value, where) =>
  typeof value === "string" ? [] : object({ sqlite: optional(text), postgres: optional(text) })(value, where);
const migration = object({ revision: text, name: text, up: list(step), down: list(step) });
const table = object({ name: text, columns: text, decode: callable, encode: callable });
const scopes = list(text);
const access: Check = (value, where) =>
  typeof value === "string"
    ? oneOf(["public", "docs", "authenticated", "chat:read", "chat:write"])(value, where)
    : scopes(value, where);
const reply = object({
  status: count,
  contentType: anyText,
  description: text,
  schema: orNull(json),
  example: orNull(is("a text or an object", (value) => typeof value === "string" || isObject(value))),
  events: list(object({ component: text, schema: json, line: orNull(text) })),
});
const errorCode = object({
  code: form(/^[a-z][a-z0-9_]{0,63}$/),
  status: is("a status from 400 to 599", isErrorStatus),
  retryable: optional(is("true or absent", (value) => value === true)),
  help: text,
});
const isOwnCode = (value: unknown): boolean => typeof value === "string" && Object.hasOwn(errorTable, value);
const route = object({
  method: oneOf(["GET", "POST", "PUT", "PATCH", "DELETE"]),
  path: form(/^(\/([A-Za-z0-9._~-]+|\{\w+\}))+$/),
  summary: text,
  tag: object({ name: text, description: anyText }),
  access,
  tenancy: list(object({ of: oneOf(ownedKinds), query: optional(callable), body: optional(callable) })),
  unlimited: flag,
  anyHost: flag,
  anonymous: is("false: only routes of svc may admit callers without credentials", (value) => value === false),
  drives: orNull(oneOf(["thread", "turn"])),
  params: orNull(json),
  query: orNull(json),
  headers: orNull(json),
  body: orNull(json),
  bodyBytesMax: count,
  bodyMembersMax: count,
  reply,
  otherReplies: list(reply),
  fails: list((value, where) =>
    isObject(value) ? errorCode(value, where) : is("a code of bus/errors.ts", isOwnCode)(value, where),
  ),
  refusal: callable,
  challenge: orNull(callable),
  admit: orNull(callable),
  handle: callable,
});
const tool = object({
  name: form(/^[A-Za-z0-9_-]{1,64}$/),
  description: text,
  parameters: json,
  shownParameters: optional(json),
  strict: optional(flag),
  effect: oneOf(toolEffects),
  risk: oneOf(toolRisks),
  workspace: flag,
  timeoutMs: count,
  execute: callable,
  resume: optional(callable),
  preview: optional(callable),
  binds: optional(callable),
  foresee: optional(callable),
  find: optional(callable),
});
const port = object({
  name: form(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/),
  type: oneOf(["text", "number", "boolean", "list", "object", "any"]),
  required: flag,
});
const kind = object({
  kind: form(/^[a-z][a-z0-9_-]{0,31}$/),
  mailboxLimit: count,
  interleaves: list(text),
  reserved: list(text),
  passivateAfterMs: count,
  load: callable,
  idle: callable,
  crashed: callable,
  on: map(/./, callable),
});
const provider = withOne(["open", "openEmbedder", "openDecider"], form(/^[a-z][a-z0-9_-]{0,63}$/));
const task = object({ name: text, run: callable });
const hook = withOne(["beforeTool", "afterTool"]);
const control = withOne(["make", "input"]);
const command = object({
  summary: text,
  // Every command has --json and --help, and a command of a plugin also has --url.
  options: map(
    /^(?!(json|help|url)$)[a-z][a-z0-9-]{0,31}$/,
    object({
      type: oneOf(["string", "boolean"]),
      short: optional(form(/^[a-gi-zA-Z]$/)),
      value: optional(text),
      help: text,
    }),
  ),
  positionals: list(text),
  words: optional(list(text)),
  run: callable,
});

const fields: Readonly<Record<keyof Plugin, Check>> = {
  name: form(/^[a-z][a-z0-9_]{0,31}$/),
  description: text,
  settings: optional(list(setting)),
  tables: optional(list(table)),
  migrations: optional(list(migration)),
  routes: optional(list(route)),
  scopes: optional(map(/^[a-z][a-z0-9_-]*:[a-z][a-z0-9_-]*$/, text)),
  commands: optional(map(/^[a-z][a-z0-9-]{0,31}$/, command)),
  auditTypes: optional(list(object({ name: form(/^[a-z][a-z0-9_]{0,63}$/), help: text }))),
  errorCodes: optional(list(errorCode)),
  tools: optional(list(tool)),
  kinds: optional(list(kind)),
  patterns: optional(map(/^[a-z][a-z0-9_]{0,63}$/, callable)),
  stepKinds: optional(
    list(
      object({
        kind: form(/^[a-z][a-z0-9_]{0,63}$/),
        description: text,
        config: json,
        inputs: list(port),
        outputs: list(port),
        advance: callable,
        cancel: optional(callable),
      }),
    ),
  ),
  modelProviders: optional(list(provider)),
  manifests: optional(is("a URL", (value) => value instanceof URL)),
  console: optional(
    object({
      folder: is("a URL of a folder, which ends with /", (value) => value instanceof URL && value.href.endsWith("/")),
      screens: list(
        object({
          name: form(/^[a-z][a-z0-9-]{0,31}$/),
          title: text,
          icon: text,
          route: text,
          module: form(/^(?:[\w-]+\/){0,2}[\w-]+\.js$/),
          isHidden: optional(flag),
        }),
      ),
    }),
  ),
  tasks: optional(list(task)),
  hooks: optional(list(hook)),
  extension: optional(json),
  toolSources: optional(list(object({ name: text, serves: callable, open: callable }))),
  controls: optional(list(control)),
  textCorpora: optional(
    list(object({ corpus: form(/^[a-z][a-z0-9_]{0,31}$/), queued: callable, queueMissing: callable, count: callable })),
  ),
  detectors: optional(list(is("a URL", (value) => value instanceof URL))),
  contextSources: optional(list(object({ name: text, contribute: callable }))),
  entryPoints: optional(
    map(
      /^[a-z][a-z0-9_]{0,31}$/,
      object({
        form: oneOf(["answer", "stream", "background"]),
        help: text,
        scheme: optional(form(/^[a-z][a-z0-9_]{0,31}$/)),
        grants: optional(callable),
        threads: optional(callable),
      }),
    ),
  ),
  callerBudgets: optional(callable),
  outbox: optional(
    map(/^[a-z][a-z0-9_]{0,31}$/, object({ attemptsMax: count, timeoutMs: count, pauseMs: count, send: callable })),
  ),
  metrics: optional(
    map(
      /^[a-z][a-z0-9_]*$/,
      object({
        type: oneOf(["counter", "histogram"]),
        help: text,
        labels: list(text),
        buckets: optional(list(is("a number", (value) => typeof value === "number"))),
      }),
    ),
  ),
};

const plugin: Check = (value, where) => {
  if (!isObject(value)) return [`${where} must be an object`];
  const strange = Object.keys(value).filter((key) => !Object.hasOwn(fields, key));
  return [...strange.map((key) => `${where} has no field ${key}`), ...object(fields)(value, where)];
};

/** The metrics of the shop whose names the specification fixes. */
const isOfShop = /^orchestrator_(abandoned_carts|geo)_/;

/** True if the name of a metric ends as its type demands: a histogram with its own buckets has no unit of svc. */
function hasUnit(metric: string, type: string, hasBuckets: boolean): boolean {
  if (type === "counter") return metric.endsWith("_total");
  return hasBuckets ? !metric.endsWith("_total") : metric.endsWith("_seconds");
}

/** Checks that migrations, metrics and tags contain the name of the plugin, and that its screens have what they name. */
function problemsOfNames(exported: Plugin): string[] {
  const { name, migrations = [], routes = [], errorCodes = [], metrics = {} } = exported;
  const revision = new RegExp(`^${name}_\\d{4}$`);
  const isOwn = ({ revision: of }: Pick<Migration, "revision">) =>
    revision.test(of) || (name === "commerce" && isReserved(of));
  const isUndeclared = (code: unknown): code is PluginErrorCode =>
    typeof code === "object" && !errorCodes.includes(code as PluginErrorCode);
  return [
    ...migrations
      .filter((one) => !isOwn(one))
      .map((one) => `the revision ${one.revision} must be ${name}_ followed by four digits`),
    ...Object.keys(metrics)
      .filter((metric) => !metric.startsWith(`svc_${name}_`) && !(name === "commerce" && isOfShop.test(metric)))
      .map((metric) => `the metric ${metric} must begin with svc_${name}_`),
    ...Object.entries(metrics)
      .filter(([metric, { type, buckets }]) => !hasUnit(metric, type, buckets !== undefined))
      .map(([metric, { type }]) => `the ${type} ${metric} must end in ${type === "counter" ? "_total" : "_seconds"}`),
    ...routes
      .filter(({ tag }) => tag.name !== name)
      .map(({ method, path }) => `the tag of ${method} ${path} must be ${name}`),
    ...routes.flatMap(({ method, path, fails }) =>
      fails
        .filter(isUndeclared)
        .map(({ code }) => `${method} ${path} fails with the code ${code}, which is not in its errorCodes`),
    ),
    ...problemsOfScreens(exported),
  ];
}

/** Checks that a screen of the console has its module, and reads a route of its plugin. */
function problemsOfScreens({ console, routes = [] }: Plugin): string[] {
  const known = new Set(routes.map(({ method, path }) => `${method} ${path}`));
  return (console?.screens ?? []).flatMap(({ name, route, module }) => [
    ...(known.has(route) ? [] : [`the screen ${name} reads ${route}, which is not one of its routes`]),
    ...(existsSync(new URL(module, console?.folder)) ? [] : [`the screen ${name} has no file ${module}`]),
  ]);
}
