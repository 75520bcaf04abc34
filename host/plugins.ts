import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type SettingIssue, SettingsError } from "../governance/settings/settings-error.ts";
import type { Plugin } from "../plugins/plugin.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";
import { shapeProblems } from "./plugin-shape.ts";

// Plugins are imported once in each thread that has a use for them, in the order of SVC_PLUGINS, and are then lists that the seams
// take. Nothing is registered anywhere: who has no list has no plugin.

/** A plugin may load much; one that waits for this long waits for what does not come. */
const importMs = 30_000;

/** Imports plugins: files for what has a slash in it, installed packages for the rest. Throws a SettingsError that names each that cannot be loaded. */
export async function importPlugins(
  names: readonly string[],
  deadlineMs: number = importMs,
): Promise<readonly LoadedPlugin[]> {
  const loaded: LoadedPlugin[] = [];
  const issues: SettingIssue[] = [];
  for (const from of names) {
    try {
      loaded.push({ from, plugin: await within(deadlineMs, importPlugin(from)) });
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

/** What the work answers. Rejects at the deadline; until then the process stays, which an import that nothing keeps alive would end. */
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

/** What is thrown may be anything. */
function errorLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
