import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../governance/settings/settings.ts";
import { SettingsError } from "../../governance/settings/settings-error.ts";
import { loadDeployment } from "../../host/deployment.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** The directory of the files. */
export const directory = mkdtempSync(join(tempDir(cleanup()), "plugins-"));
let count = 0;

writeFileSync(join(directory, "screen.js"), "export const Screen = () => null;");

/** A file with this text, for SVC_PLUGINS. */
export function file(text: string): string {
  const path = join(directory, `plugin-${++count}.ts`);
  writeFileSync(path, text);
  return path;
}

/** A plugin of this name, with further fields. */
export function pluginFile(name: string, rest: string): string {
  return file(`import { Type } from "typebox";
    import { int } from "svc/governance/settings/setting.ts";
    import { json } from "svc/http/exchange/reply.ts";
    import { route } from "svc/http/route.ts";
    import { defineTool } from "svc/actors/tools/tool.ts";
    const tool = (name) => defineTool({ name, description: "x", parameters: Type.Object({}), effect: "read", risk: "reads",
      execute: () => ({ text: "" }) });
    const get = (path) => route({ method: "GET", path, summary: "x", tag: "${name}", access: "authenticated",
      reply: { description: "x" }, handle: () => json({}) });
    const table = (name) => ({ name, columns: "a", decode: () => ({}), encode: () => [] });
    const making = (revision, ...tables) => ({ revision, name: "x", up: tables.map((table) => \`CREATE TABLE \${table} (a TEXT)\`), down: [] });
    const kind = (kind) => ({ kind, mailboxLimit: 1, interleaves: [], reserved: [], passivateAfterMs: 1, load: () => 0,
      idle: () => true, crashed: () => {}, on: {} });
    const command = { summary: "x", options: {}, positionals: [], run: () => ({ code: 0, json: {}, text: "" }) };
    const screen = (name, route) => ({ name, title: "x", icon: "copy", route, module: "screen.js" });
    export const plugin = { name: "${name}", description: "x", ${rest} };`);
}

/** The refusal of loading these; empty when they load. */
export async function refusals(paths: readonly string[], env: Environment = {}): Promise<string[]> {
  try {
    await loadDeployment({ SVC_PLUGINS: paths.join(","), ...env });
    return [];
  } catch (error) {
    assert.ok(error instanceof SettingsError, String(error));
    return error.issues.map(({ name, reason }) => `${name} ${reason}`);
  }
}
