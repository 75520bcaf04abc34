import { type Environment, readSettings, type Settings, withRulesOf } from "../governance/settings/settings.ts";
import { type SettingIssue, SettingsError } from "../governance/settings/settings-error.ts";
import { type LoadedPlugin, pluginBudgets, pluginEntryPoints, pluginSettings } from "./plugin-seams.ts";
import { importPlugins, pluginsOf } from "./plugins.ts";

// Reads the settings and plugins of a process. Threads receive the settings and do not load this code.

/** The settings of an environment, with the plugins that they name. */
export interface Deployment {
  readonly settings: Settings;
  readonly plugins: readonly LoadedPlugin[];
}

/** Throws a SettingsError that lists every invalid setting, and every plugin that cannot be loaded or conflicts with another. */
export async function loadDeployment(environment: Environment): Promise<Deployment> {
  const { issues, ...deployment } = await readDeployment(environment);
  if (issues.length > 0) throw new SettingsError(issues);
  return deployment;
}

/** Returns what can be read and the issues; without any plugin if one of them fails. */
export async function readDeployment(
  environment: Environment,
): Promise<Deployment & { readonly issues: readonly SettingIssue[] }> {
  const alone = readSettings(environment);
  const names = pluginsOf(alone.settings);
  if (names.length === 0) return { ...alone, plugins: [] };
  try {
    const plugins = await importPlugins(names);
    // These checks import every layer. The tests make them for what ships with svc.
    if (alone.settings.plugins.length > 0) await refuseConflicts(plugins);
    const { settings, issues } = readSettings(environment, pluginSettings(plugins));
    const rules = {
      entryPoints: pluginEntryPoints(plugins, settings),
      callerBudgets: pluginBudgets(plugins, settings),
    };
    return { settings: withRulesOf(settings, rules), issues, plugins };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return { ...alone, plugins: [], issues: [...alone.issues, ...error.issues] };
  }
}

/** Refuses plugins that conflict with each other or with svc. */
async function refuseConflicts(plugins: readonly LoadedPlugin[]): Promise<void> {
  const [{ collisions }, { schemaIssues }] = await Promise.all([
    import("./plugin-collisions.ts"),
    import("./plugin-schemas.ts"),
  ]);
  const found = [...collisions(plugins), ...schemaIssues(plugins)];
  if (found.length > 0) throw new SettingsError(found);
}
