import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Settings } from "../governance/settings/settings.ts";
import { type SettingIssue, SettingsError } from "../governance/settings/settings-error.ts";
import type { Plugin } from "../plugins/plugin.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";
import { shapeProblems } from "./plugin-shape.ts";

// Each thread that needs plugins imports them once, in the order of SVC_PLUGINS, and passes them on as a list. There is no
// global registry.

/** Max time of an import; a longer one is assumed to hang. */
const importMs = 30_000;

/** The shop, which ships with svc. */
const commerce = fileURLToPath(new URL("../plugins/commerce/commerce.ts", import.meta.url));

/** Returns the plugins to load: those that ship with svc and are not switched off, then those of SVC_PLUGINS. */
export function pluginsOf({ commerceEnabled, plugins }: Pick<Settings, "commerceEnabled" | "plugins">): string[] {
  return [...(commerceEnabled ? [commerce] : []), ...plugins];
}

/**
 * Imports plugins: entries with a slash as files, others as installed packages. Throws a SettingsError that names each plugin
 * that cannot be loaded.
 */
export async function importPlugins(
  names: readonly string[],
  deadlineMs: number = importMs,
): Promise<readonly LoadedPlugin[]> {
  const loaded: LoadedPlugin[] = [];
  const issues: SettingIssue[] = [];
  for (const from of names) {
    try {
      loaded.push({ from: from === commerce ? "svc" : from, plugin: await within(deadlineMs, importPlugin(from)) });
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

/**
 * Returns the result of `work`; rejects at the deadline. The timer also keeps the process alive during an import that has no
 * pending I/O.
 */
async function within<T>(deadlineMs: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`its import did not finish within ${deadlineMs / 1000} s`)),
    deadlineMs,
  );
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A plugin may throw any value. */
function errorLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
