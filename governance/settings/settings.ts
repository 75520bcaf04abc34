import { join } from "node:path";
import { accessSettings } from "./access-settings.ts";
import { dataSettings } from "./data-settings.ts";
import { durableSettings } from "./durable-settings.ts";
import { headerHost } from "./hosts.ts";
import { type KeyedProviderName, keyedProviders } from "./model-options.ts";
import { modelSettings } from "./model-settings.ts";
import { protocolSettings } from "./protocol-settings.ts";
import { providerKeyNames, readProviderKeys } from "./provider-keys.ts";
import { queueSettings } from "./queue-settings.ts";
import { collectSecretValues, guessableSettings, signingSecrets } from "./secret-values.ts";
import { limitSettings, serverSettings } from "./server-settings.ts";
import { isPlainData, type Setting } from "./setting.ts";
import { type SettingIssue, SettingsError } from "./settings-error.ts";
import { refuseUnbuilt, unbuiltSettings } from "./unbuilt.ts";
import { webhookSettings } from "./webhook-settings.ts";

// The environment becomes settings here and nowhere else. Every setting is declared once, in settings/*-settings.ts; its
// type, its default, its range and its line in the documents come from that declaration.

/** The settings in the order in which documents show them. */
export const settingsSections = [
  { title: "Server", settings: serverSettings },
  { title: "Limits", settings: limitSettings },
  { title: "Access and secrets", settings: accessSettings },
  { title: "OpenAI protocol", settings: protocolSettings },
  { title: "Data", settings: dataSettings },
  { title: "Durable runs", settings: durableSettings },
  { title: "Queues", settings: queueSettings },
  { title: "Models", settings: modelSettings },
  { title: "Webhooks", settings: webhookSettings },
] as const;

const table = {
  ...serverSettings,
  ...limitSettings,
  ...accessSettings,
  ...protocolSettings,
  ...dataSettings,
  ...durableSettings,
  ...queueSettings,
  ...modelSettings,
  ...webhookSettings,
};

type Table = typeof table;
type Values = { readonly [K in keyof Table]: Table[K] extends Setting<infer T> ? T : never };

/** Every setting by its name in camel case. Plain and frozen: it can be sent to any thread. */
export interface Settings extends Values {
  /** Those of the plugins, by their names in the environment; `settingOf` reads them. */
  readonly pluginSettings: Readonly<Record<string, unknown>>;
  /** What the providers' keys are, where the environment has one. */
  readonly providerApiKeys: Readonly<Partial<Record<KeyedProviderName, string>>>;
  /** What secret:NAME means with SVC_SECRETS_BACKEND=env. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Every value above that must never be printed, for the mask. */
  readonly secretValues: readonly string[];
  /** Names of the settings whose secret can be guessed, so that it is not masked everywhere. */
  readonly guessableSettings: readonly string[];
  /** Names of the environment that gave a value; the rest are defaults. */
  readonly fromEnvironment: readonly string[];
  /** SVC_* names that are no setting: most likely misspelt. */
  readonly unknownNames: readonly string[];
}

/** Variables by name, as a process has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

const secretPrefix = "SVC_SECRET_";

/**
 * The settings of an environment; `own` are those that plugins declare. Throws a SettingsError that lists everything that is
 * malformed or not built.
 */
export function loadSettings(environment: Environment, own: readonly Setting<unknown>[] = []): Settings {
  const { settings, issues } = readSettings(environment, own);
  if (issues.length > 0) throw new SettingsError(issues);
  return settings;
}

/** The same settings without the key that `svc mint-jwt` signs with: a server verifies tokens and makes none. */
export function withoutSigningKey(settings: Settings): Settings {
  const gone = new Set(signingSecrets(settings.jwksPrivate));
  const secretValues = settings.secretValues.filter((value) => !gone.has(value));
  return freeze({ ...settings, jwksPrivate: null, secretValues });
}

/** The settings as far as they can be read, with the default in the place of each that cannot, and what is wrong with those. */
export function readSettings(
  environment: Environment,
  own: readonly Setting<unknown>[] = [],
): { settings: Settings; issues: readonly SettingIssue[] } {
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

  for (const setting of unbuiltSettings) {
    const value = environment[setting.name]?.trim() ?? "";
    const reason = value === "" ? null : refuseUnbuilt(setting, value);
    if (reason) issues.push({ name: setting.name, reason });
  }

  const providers = readProviderKeys(environment);
  const secrets = readSecrets(environment);
  const known = new Set([...settingNames(), ...own.map(({ name }) => name)]);
  const ownSecrets = own.filter(({ secret }) => secret).map(({ name }) => name);
  const secretValues = collectSecretValues(environment, values, [...providers.names, ...ownSecrets], secrets);
  const settings: Settings = {
    ...values,
    pluginSettings,
    allowedHosts: values.allowedHosts.length > 0 ? values.allowedHosts : defaultHosts(values.host),
    objectStorePath: values.objectStorePath || join(values.dataDir, "objects"),
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

/** A setting of a plugin, which may be JavaScript: what it throws has words, and what it reads can cross to threads. */
function plainly(setting: Setting<unknown>): Setting<unknown> {
  return {
    ...setting,
    read(text) {
      const value = readOrThrow(setting, text);
      if (!isPlainData(value)) throw new Error("is read by its plugin as a value that is not plain data");
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

/** The value of a setting that a plugin declares. Throws where the plugin was not loaded when the settings were read. */
export function settingOf<T>({ pluginSettings }: Pick<Settings, "pluginSettings">, { name }: Setting<T>): T {
  if (!Object.hasOwn(pluginSettings, name)) throw new Error(`${name} is not a setting of a loaded plugin`);
  return pluginSettings[name] as T;
}

/** Every name that means something to svc itself, built or not, but for those under SVC_SECRET_. */
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

/** Loopback names and the address that is listened on. */
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
