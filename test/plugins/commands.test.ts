// Commands of plugins, as processes and in the dispatcher.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { readSettings } from "../../governance/settings/settings.ts";
import type { Command } from "../../host/cli/command.ts";
import { type Commands, dispatch } from "../../host/cli/dispatch.ts";
import { pluginCommands } from "../../host/cli/plugin-commands.ts";
import { commandNames } from "../../host/command-names.ts";
import type { Outcome } from "../../plugins/command.ts";
import { definePlugin } from "../../plugins/plugin.ts";
import { apiKeys, startServerProcess } from "../support/server.ts";
import { silentTalk } from "../support/silent-talk.ts";
import { root } from "../support/source.ts";
import { cleanup } from "../support/temp.ts";

const plugin = "./test/support/notes-plugin.ts";
const { env: keyed, keys } = apiKeys({ writer: { scopes: ["notes:write"] }, other: { scopes: ["chat:write"] } });

/** Runs the command line as a process. */
function svc(argv: readonly string[], env: Record<string, string>) {
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd: root, env: { PATH: process.env.PATH, ...env } };
    const child = execFile(process.execPath, [join(root, "svc.js"), ...argv], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

test("a command of a plugin calls a running server with its key", async (t) => {
  const server = await startServerProcess({ atEnd: cleanup(t), env: { ...keyed, SVC_PLUGINS: plugin } });
  const env = { SVC_PLUGINS: plugin, SVC_NOTES_MAX: "7", SVC_KEY: keys.writer };
  const at = ["--url", server.url];

  const kept = await svc(["notes", "by hand", ...at], env);
  const listed = await svc(["notes", ...at], env);
  const asJson = await svc(["notes", "--json", ...at], env);
  const refused = await svc(["notes", ...at], { ...env, SVC_KEY: keys.other });

  assert.match(kept.stdout, /^kept \w+\n$/);
  assert.deepEqual([listed.code, listed.stdout, listed.stderr], [0, "by hand\n", "A tenant may keep 7 notes.\n"]);
  assert.deepEqual([asJson.code, JSON.parse(asJson.stdout).items.length], [0, 1]);
  assert.equal(refused.code, 2);
});

test("a command of a plugin is in help and completion, and its usage is checked", async () => {
  const env = { SVC_PLUGINS: plugin };

  const overview = await svc(["help", "--json"], env);
  const page = await svc(["help", "notes"], env);
  const script = await svc(["completion", "bash"], env);
  const wrong = await svc(["notes", "a", "b"], env);

  const names = JSON.parse(overview.stdout).commands.map(({ name }: { name: string }) => name);
  assert.deepEqual(names, [...commandNames, "notes"]);
  assert.match(page.stdout, /^Usage: svc notes \[BODY\] \[options\]\n.*--reverse.*--url URL/s);
  assert.match(script.stdout, /^ {4}notes\) .*--reverse --url --json --help/m);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /takes \[BODY\]\.\nRun "svc help notes" for its usage\.\n$/);
});

test("a plugin that cannot be loaded leaves svc's own commands and help usable", async () => {
  const env = { SVC_PLUGINS: "./nowhere.ts" };

  const own = await svc(["version"], env);
  const overview = await svc(["help"], env);
  const sought = await svc(["notes"], env);

  assert.equal(own.code, 0);
  assert.equal(overview.code, 0);
  assert.match(overview.stdout, /The commands of plugins are missing, .* run "svc doctor"\.\n$/);
  assert.equal(sought.code, 1);
  assert.match(sought.stderr, /SVC_PLUGINS names \.\/nowhere\.ts, which cannot be loaded/);
});

const io = {
  ...{ env: systemEnv(), environment: {}, stop: new AbortController().signal, terminal: null },
  talk: silentTalk(),
};
const own: Command = {
  ...{ summary: "Say it.", options: {}, positionals: [] },
  run: async () => ({ code: 0, json: {}, text: "said" }),
};
const commands: Commands = { say: async () => own };

test("the dispatcher loads plugins only for a name that svc lacks", async () => {
  let loads = 0;
  const ofPlugins = async (): Promise<Commands> => {
    loads++;
    return { shout: async () => own };
  };

  const said = await dispatch(["say"], commands, io, ofPlugins);
  const afterOwn = loads;
  const shouted = await dispatch(["shout"], commands, io, ofPlugins);
  const missing = await dispatch(["shuot"], commands, io, ofPlugins);

  assert.deepEqual([said.stdout, afterOwn], ["said\n", 0]);
  assert.deepEqual([shouted.stdout, loads], ["said\n", 2]);
  assert.match(missing.stderr, /no command "shuot" \(did you mean shout\?\)/);
});

test("an outcome without a code or a text is a failure of the command", async () => {
  const { settings } = readSettings({});
  for (const outcome of [undefined, {}, { code: 7, json: {}, text: "" }, { code: 0, json: null, text: "" }]) {
    const run = () => outcome as Outcome;
    const odd = definePlugin({
      ...{ name: "odd", description: "x" },
      commands: { odd: { summary: "x", options: {}, positionals: [], run } },
    });
    const ofPlugins = async () => pluginCommands({ settings, plugins: [{ from: "odd", plugin: odd }] });

    const { code, stderr } = await dispatch(["odd"], commands, io, ofPlugins);

    assert.deepEqual([code, stderr], [1, "the command of the plugin returned no outcome with code, json and text\n"]);
  }
});
