import { type Environment, readSettings, type Settings } from "../governance/settings/settings.ts";
import { type SettingIssue, SettingsError } from "../governance/settings/settings-error.ts";
import { type LoadedPlugin, pluginSettings } from "./plugin-seams.ts";
import { importPlugins } from "./plugins.ts";

// What a process finds in its environment. Its threads are told the settings, and have no use for what reads them.

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
    // They know every layer, and so load them all.
    const [{ collisions }, { schemaIssues }] = await Promise.all([
      import("./plugin-collisions.ts"),
      import("./plugin-schemas.ts"),
    ]);
    const found = [...collisions(plugins), ...schemaIssues(plugins)];
    if (found.length > 0) throw new SettingsError(found);
    return { ...readSettings(environment, pluginSettings(plugins)), plugins };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return { ...alone, plugins: [], issues: [...alone.issues, ...error.issues] };
  }
}
