import { join } from "node:path";
import type { PluginEntryPoint } from "../../bus/protocol/run.ts";
import { accessSettings } from "./access-settings.ts";
import { browserSettings } from "./browser-settings.ts";
import { clusterConfigOf, clusterSettings } from "./cluster-settings.ts";
import { dataSettings } from "./data-settings.ts";
import { durableSettings } from "./durable-settings.ts";
import { egressSettings } from "./egress-settings.ts";
import { headerHost } from "./hosts.ts";
import { type KeyedProviderName, keyedProviders } from "./model-options.ts";
import { modelSettings } from "./model-settings.ts";
import { objectSettings } from "./object-settings.ts";
import { protocolSettings } from "./protocol-settings.ts";
import { providerKeyNames, readProviderKeys } from "./provider-keys.ts";
import { pushSettings } from "./push-settings.ts";
import { queueSettings } from "./queue-settings.ts";
import { repoSettings } from "./repo-settings.ts";
import { runnerSettings } from "./runner-settings.ts";
import { searchSettings } from "./search-settings.ts";
import { collectSecretValues, guessableSettings, signingSecrets } from "./secret-values.ts";
import { limitSettings, serverSettings } from "./server-settings.ts";
import { isPlainData, type Setting } from "./setting.ts";
import { type SettingIssue, SettingsError } from "./settings-error.ts";
import { shellSettings } from "./shell-settings.ts";
import { signInSettings } from "./sign-in-settings.ts";
import { skillImportSettings } from "./skill-import-settings.ts";
import { skillSettings } from "./skill-settings.ts";
import type { TokenKey } from "./token-keys.ts";
import { tracingSettings, withStandardNames } from "./tracing-settings.ts";
import { refuseUnbuilt, unbuiltSettings } from "./unbuilt.ts";
import { webhookSettings } from "./webhook-settings.ts";

// The only code that reads the environment. Each setting is declared once, in settings/*-settings.ts; its type, default, range
// and documentation derive from that declaration.

/** All settings in the order of the documentation. */
export const settingsSections = [
  { title: "Server", settings: serverSettings },
  { title: "Limits", settings: limitSettings },
  { title: "Access and secrets", settings: accessSettings },
  { title: "Sign-in", settings: signInSettings },
  { title: "Repositories", settings: repoSettings },
  { title: "OpenAI protocol", settings: protocolSettings },
  { title: "Data", settings: dataSettings },
  { title: "Object store", settings: objectSettings },
  { title: "Durable runs", settings: durableSettings },
  { title: "Queues", settings: queueSettings },
  { title: "Several hosts", settings: clusterSettings },
  { title: "Models", settings: modelSettings },
  { title: "Skills", settings: skillSettings },
  { title: "Import of skills", settings: skillImportSettings },
  { title: "Webhooks", settings: webhookSettings },
  { title: "Push notifications", settings: pushSettings },
  { title: "Outgoing connections", settings: egressSettings },
  { title: "Web search", settings: searchSettings },
  { title: "Commands", settings: shellSettings },
  { title: "Runners and gateways", settings: runnerSettings },
  { title: "Browsers", settings: browserSettings },
  { title: "Traces", settings: tracingSettings },
] as const;

const table = {
  ...serverSettings,
  ...limitSettings,
  ...accessSettings,
  ...signInSettings,
  ...repoSettings,
  ...protocolSettings,
  ...dataSettings,
  ...objectSettings,
  ...durableSettings,
  ...queueSettings,
  ...clusterSettings,
  ...modelSettings,
  ...skillSettings,
  ...skillImportSettings,
  ...webhookSettings,
  ...pushSettings,
  ...egressSettings,
  ...searchSettings,
  ...shellSettings,
  ...runnerSettings,
  ...browserSettings,
  ...tracingSettings,
};

type Table = typeof table;
type Values = { readonly [K in keyof Table]: Table[K] extends Setting<infer T> ? T : never };

/** Every setting under its camel-case name. Plain and frozen, so that it can be sent to any thread. */
export interface Settings extends Values {
  /** Settings of plugins by environment variable; `settingOf` reads them. */
  readonly pluginSettings: Readonly<Record<string, unknown>>;
  /** What the settings mean for the entry points of plugins. */
  readonly entryPoints: readonly EntryPointRules[];
  /** Budgets of callers of plugins, for tenants that have no budget for them. */
  readonly callerBudgets: readonly CallerBudget[];
  /** Keys of providers that the environment defines. */
  readonly providerApiKeys: Readonly<Partial<Record<KeyedProviderName, string>>>;
  /** Values of secret:NAME with SVC_SECRETS_BACKEND=env. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Every secret value, for the mask. */
  readonly secretValues: readonly string[];
  /** Settings whose secret can be guessed, so that it is masked only in audit rows and logs. */
  readonly guessableSettings: readonly string[];
  /** Environment variables that supplied a value; all other settings have their defaults. */
  readonly fromEnvironment: readonly string[];
  /** SVC_* variables that are not settings, probably misspelt. */
  readonly unknownNames: readonly string[];
}

/** The callers and threads of a plugin's entry point, as the settings define them. */
export interface EntryPointRules {
  readonly surface: PluginEntryPoint;
  /** The scheme of principals that the plugin makes; null if its callers are those of svc. */
  readonly scheme: string | null;
  readonly grants: readonly EntryPointGrant[];
  /** Beginnings of the suffixes of threads on which other entry points start no turn. */
  readonly threads: readonly string[];
}

/** A budget that a plugin gives each tenant for some of its callers, unless SVC_BUDGETS has one for them. */
export interface CallerBudget {
  readonly id: string;
  /** The beginning of the callers' subjects. */
  readonly sub: string;
  readonly period: "day" | "month";
  /** Tokens that these callers of a tenant may spend together. */
  readonly tokens: number;
}

/** The scopes of principals of one scheme. */
export interface EntryPointGrant {
  readonly tenant_id: string;
  /** The beginning of their subjects. */
  readonly sub: string;
  readonly scopes: readonly string[];
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

const secretPrefix = "SVC_SECRET_";

/** Settings that need a plugin that ships with svc and is loaded only where SVC_PLUGINS names it. */
const settingsOfPlugins: Readonly<Record<string, string>> = {
  SVC_CHANNELS: "./plugins/channels/channels.ts",
  SVC_SLACK_API_URL: "./plugins/channels/channels.ts",
};

/**
 * Reads the settings of an environment; `own` are those that plugins declare. Throws a SettingsError that lists every malformed
 * or unsupported setting.
 */
export function loadSettings(environment: Environment, own: readonly Setting<unknown>[] = []): Settings {
  const { settings, issues } = readSettings(environment, own);
  if (issues.length > 0) throw new SettingsError(issues);
  return settings;
}

/** Returns the settings with the rules of plugins. */
export function withRulesOf(settings: Settings, rules: Pick<Settings, "entryPoints" | "callerBudgets">): Settings {
  return freeze({ ...settings, ...rules });
}

/** Returns the settings without the signing key of `svc mint-jwt`: a server only verifies tokens. */
export function withoutSigningKey(settings: Settings): Settings {
  const gone = new Set(signingSecrets(settings.jwksPrivate));
  const secretValues = settings.secretValues.filter((value) => !gone.has(value));
  return freeze({ ...settings, jwksPrivate: null, secretValues });
}

/** Returns the settings with a key of the audit chain that was made for them. */
export function withAuditKey(settings: Settings, key: string): Settings {
  return freeze({ ...settings, auditKey: [key], secretValues: [...settings.secretValues, key] });
}

/** Returns the settings with a signing key of access tokens that was made for them. */
export function withTokenKey(settings: Settings, key: TokenKey): Settings {
  const secretValues = [...settings.secretValues, String(key.private.d)];
  return freeze({ ...settings, tokenSigningKey: [key], secretValues });
}

/** Reads the settings and their problems. An invalid setting gets its default. */
export function readSettings(
  given: Environment,
  own: readonly Setting<unknown>[] = [],
): { settings: Settings; issues: readonly SettingIssue[] } {
  const environment = withStandardNames(given);
  const issues: SettingIssue[] = [];
  const fromEnvironment: string[] = [];
  const read = (setting: Setting<unknown>): unknown => {
    const value = environment[setting.name]?.trim() ?? "";
    if (value === "") return setting.default;
    try {
      const found = setting.read(value);
      fromEnvironment.push(setting.name);
      return found;
    } catch (error) {
      issues.push({ name: setting.name, reason: (error as Error).message });
      return setting.default;
    }
  };
  const values = Object.fromEntries(
    Object.entries(table).map(([key, setting]) => [key, read(setting)]),
  ) as unknown as Values;
  const pluginSettings = Object.fromEntries(own.map((setting) => [setting.name, read(plainly(setting))]));

  for (const { name, testOnly } of own)
    if (testOnly === true && values.environment === "production" && fromEnvironment.includes(name))
      issues.push({ name, reason: "is not for production" });
  for (const [name, plugin] of Object.entries(settingsOfPlugins)) {
    const isSet = (environment[name]?.trim() ?? "") !== "";
    if (isSet && own.every((setting) => setting.name !== name))
      issues.push({ name, reason: `needs a plugin that ships with svc: add ${plugin} to SVC_PLUGINS` });
  }
  for (const setting of unbuiltSettings) {
    const value = environment[setting.name]?.trim() ?? "";
    const reason = value === "" ? null : refuseUnbuilt(setting, value);
    if (reason) issues.push({ name: setting.name, reason });
  }

  const duties = dutiesOf(values, fromEnvironment, issues);
  const providers = readProviderKeys(environment);
  const secrets = readSecrets(environment);
  const known = new Set([...settingNames(), ...Object.keys(settingsOfPlugins), ...own.map(({ name }) => name)]);
  const literals = own.flatMap((setting) => {
    const texts = setting.literals?.(pluginSettings[setting.name]) ?? [];
    return texts.map((text) => ({ setting: setting.name, text }));
  });
  const ownSecrets = own.filter(({ secret }) => secret).map(({ name }) => name);
  const named = collectSecretValues(environment, values, [...providers.names, ...ownSecrets], secrets);
  const secretValues = [...named, ...literals];
  const settings: Settings = {
    ...values,
    duties,
    pluginSettings,
    entryPoints: [],
    callerBudgets: [],
    allowedHosts: values.allowedHosts.length > 0 ? values.allowedHosts : defaultHosts(values.host),
    objectStorePath: values.objectStorePath || join(values.dataDir, "objects"),
    // Another host would not find what lies in the data directory of this one.
    repoCheckoutRoot:
      values.repoCheckoutRoot ?? (clusterConfigOf(values) === null ? join(values.dataDir, "checkouts") : null),
    trustedClientIpHeader: values.trustedClientIpHeader.toLowerCase(),
    providerApiKeys: providers.keys,
    secrets,
    secretValues: [...new Set(secretValues.map(({ text }) => text))],
    guessableSettings: guessableSettings(secretValues),
    fromEnvironment: [
      ...fromEnvironment,
      ...providers.names,
      ...Object.keys(secrets).map((name) => secretPrefix + name),
    ],
    unknownNames: Object.keys(environment).filter(
      (name) => name.startsWith("SVC_") && !known.has(name) && !name.startsWith(secretPrefix),
    ),
  };
  return { settings: freeze(settings), issues };
}

/** Returns the duties, which two settings can name. */
function dutiesOf(
  { duties, processRole }: Pick<Values, "duties" | "processRole">,
  fromEnvironment: readonly string[],
  issues: SettingIssue[],
): Values["duties"] {
  if (processRole === "all" || processRole === "cli") return duties;
  const isSame = duties.length === 1 && duties[0] === processRole;
  if (fromEnvironment.includes("SVC_DUTIES") && !isSame)
    issues.push({
      name: "SVC_PROCESS_ROLE",
      reason: "is another name of SVC_DUTIES, which has other duties; set one of them",
    });
  return [processRole];
}

/**
 * Wraps a plugin's setting, whose code may be untyped JavaScript: every error has a message, and the value can be cloned to
 * threads.
 */
function plainly(setting: Setting<unknown>): Setting<unknown> {
  return {
    ...setting,
    read(text) {
      const value = readOrThrow(setting, text);
      if (!isPlainData(value)) throw new Error("was read by its plugin to a value that is not plain data");
      return value;
    },
  };
}

function readOrThrow(setting: Setting<unknown>, text: string): unknown {
  try {
    return setting.read(text);
  } catch (error) {
    throw error instanceof Error && error.message !== "" ? error : new Error("cannot be read by its plugin");
  }
}

/** Returns the value of a setting that a plugin declares. Throws if the plugin was not loaded with these settings. */
export function settingOf<T>({ pluginSettings }: Pick<Settings, "pluginSettings">, { name }: Setting<T>): T {
  if (!Object.hasOwn(pluginSettings, name)) throw new Error(`${name} is not a setting of a loaded plugin`);
  return pluginSettings[name] as T;
}

/** Returns all environment variables that svc itself knows, supported or not, except SVC_SECRET_*. */
export function settingNames(): string[] {
  return [
    ...Object.values<Setting<unknown>>(table).map(({ name }) => name),
    ...unbuiltSettings.map(({ name }) => name),
    ...keyedProviders.flatMap(providerKeyNames),
  ];
}

function readSecrets(environment: Environment): Record<string, string> {
  const secrets: [string, string][] = [];
  for (const [name, value] of Object.entries(environment)) {
    if (name.startsWith(secretPrefix) && name.length > secretPrefix.length && value) {
      secrets.push([name.slice(secretPrefix.length), value]);
    }
  }
  return Object.fromEntries(secrets);
}

/** Loopback names and the address that the server listens on. */
function defaultHosts(host: string): readonly string[] {
  return [...new Set(["localhost", "127.0.0.1", "[::1]", headerHost(host)])];
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) freeze(inner);
  }
  return value;
}
