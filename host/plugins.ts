import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import {
  type Environment,
  readSettings,
  type SettingIssue,
  type Settings,
  SettingsError,
} from "../governance/settings/settings.ts";
import type { Plugin } from "../plugins/plugin.ts";
import { type LoadedPlugin, pluginSettings } from "./plugin-seams.ts";
import { shapeProblems } from "./plugin-shape.ts";

// Plugins are imported once in each thread that has a use for them, in the order of SVC_PLUGINS, and are then lists that the seams
// take. Nothing is registered anywhere: who has no list has no plugin.

/** Imports plugins: files for what has a slash in it, installed packages for the rest. Throws a SettingsError that names each that cannot be loaded. */
export async function importPlugins(names: readonly string[]): Promise<readonly LoadedPlugin[]> {
  const loaded: LoadedPlugin[] = [];
  const issues: SettingIssue[] = [];
  for (const from of names) {
    try {
      loaded.push({ from, plugin: await importPlugin(from) });
    } catch (error) {
      issues.push({ name: "SVC_PLUGINS", reason: `names ${from}, which cannot be loaded: ${errorLine(error)}` });
    }
  }
  if (issues.length > 0) throw new SettingsError(issues);
  return loaded;
}

async function importPlugin(from: string): Promise<Plugin> {
  const isPath = /[/\\]/.test(from) && !from.startsWith("@");
  const { plugin } = (await import(isPath ? pathToFileURL(resolve(from)).href : from)) as { plugin?: unknown };
  const problems = shapeProblems(plugin);
  if (problems.length > 0) throw new Error(problems.join("; "));
  return plugin as Plugin;
}

/** What is thrown may be anything. */
function errorLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}

/** The settings of an environment, with the plugins that it names. */
export interface Deployment {
  readonly settings: Settings;
  readonly plugins: readonly LoadedPlugin[];
}

/** Throws a SettingsError that lists every setting that does not stand, and every plugin that cannot be loaded or collides with another. */
export async function loadDeployment(environment: Environment): Promise<Deployment> {
  const { issues, ...deployment } = await readDeployment(environment);
  if (issues.length > 0) throw new SettingsError(issues);
  return deployment;
}

/** The same as far as it can be read: without any plugin when one of them does not stand. */
export async function readDeployment(
  environment: Environment,
): Promise<Deployment & { readonly issues: readonly SettingIssue[] }> {
  const alone = readSettings(environment);
  if (alone.settings.plugins.length === 0) return { ...alone, plugins: [] };
  try {
    const plugins = await importPlugins(alone.settings.plugins);
    // It knows the names of every layer, and so loads them all.
    const { collisions } = await import("./plugin-collisions.ts");
    const found = collisions(plugins);
    if (found.length > 0) throw new SettingsError(found);
    return { ...readSettings(environment, pluginSettings(plugins)), plugins };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return { ...alone, plugins: [], issues: [...alone.issues, ...error.issues] };
  }
}
