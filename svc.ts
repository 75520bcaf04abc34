// The command line. Arguments are parsed and commands run in governance/cli; here is what touches the process, and what the
// commands need from the layers above them.
import { readFileSync } from "node:fs";
import { systemEnv } from "./bus/env.ts";
import type { Command } from "./governance/cli/command.ts";
import { type Commands, dispatch } from "./governance/cli/dispatch.ts";
import { bootRefusals } from "./governance/settings/boot-refusals.ts";
import { loadSettings, type Settings } from "./governance/settings.ts";
import type { Registries } from "./manifests/registries.ts";

const env = systemEnv();
const stop = new AbortController();
const { version } = JSON.parse(readFileSync(new URL("./package.json", import.meta.url), "utf8")) as { version: string };

const serveCommand: Command = {
  summary: "Start the server.",
  options: {},
  positionals: [],
  async run(_args, { environment, stop }) {
    const settings = loadSettings(environment);
    const refusals = bootRefusals(settings);
    if (refusals.length > 0) {
      return { code: 1, json: { ok: false, error: "boot_refused", refusals }, text: refusals.join("\n") };
    }
    listenForSignals();
    const { serve } = await import("./http/serve.ts");
    await serve(settings, { version, stop, terminal: process.stdout.isTTY === true });
    return { code: 0, json: { ok: true }, text: "" };
  },
};

const commands: Commands = {
  serve: async () => serveCommand,
  migrate: async () => (await import("./governance/cli/migrate.ts")).migrateCommand,
  doctor: async () => (await import("./governance/cli/doctor.ts")).doctorCommand(registriesOf),
  "validate-manifest": async () =>
    (await import("./governance/cli/validate-manifest.ts")).validateManifestCommand(registriesOf),
  "mint-jwt": async () => (await import("./governance/cli/mint-jwt.ts")).mintJwtCommand,
  keys: async () => (await import("./governance/cli/keys.ts")).keysCommand,
  version: async () => (await import("./governance/cli/version.ts")).versionCommand(version),
};

/** Tools and model routes of a deployment, for the commands that check manifests. */
async function registriesOf(settings: Settings): Promise<Registries> {
  const { createModels } = await import("./actors/run/model/create-models.ts");
  const { builtInTools } = await import("./actors/run/tools/built-in.ts");
  const { routes, defaultModelId } = createModels(settings, env);
  return {
    tools: new Map(builtInTools.map((tool) => [tool.name, tool])),
    routes,
    defaultModelId,
    workspaceDeploymentTenants: settings.workspaceDeploymentTenants,
  };
}

/** The first signal, or the end of the launcher, asks the server to drain; a second one ends the process at once. */
function listenForSignals(): void {
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(1);
    stop.abort();
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  if (process.connected) process.on("disconnect", () => stop.abort());
}

const { code, stdout, stderr } = await dispatch(process.argv.slice(2), commands, {
  env,
  environment: process.env,
  stop: stop.signal,
});
await new Promise<void>((resolve) => process.stdout.write(stdout, () => resolve()));
await new Promise<void>((resolve) => process.stderr.write(stderr, () => resolve()));
// Not left to the event loop: an idle connection to a model or a database would hold the process.
process.exit(code);
