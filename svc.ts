// The command line. host/cli parses arguments and runs commands. This file handles the process and passes to the commands what they need
// from the layers above them.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { systemEnv } from "./bus/env.ts";
import { bootRefusals } from "./governance/settings/boot-refusals.ts";
import { allDuties, type Duty } from "./governance/settings/duties.ts";
import { type Command, type CommandIo, type Talk, textOption } from "./host/cli/command.ts";
import { type Commands, dispatch, unlessRefused } from "./host/cli/dispatch.ts";
import type { Terminal } from "./host/cli/list-table.ts";
import type { commandNames } from "./host/command-names.ts";
import { type Deployment, loadDeployment } from "./host/deployment.ts";
import { pluginExtensions, pluginOffers, pluginPatterns, pluginProviders } from "./host/plugin-seams.ts";
import type { ParentChannel, ToWorker } from "./host/sibling-metrics.ts";
import type { Registries } from "./manifests/registries.ts";
import { type CommandArgs, type Outcome, UsageError } from "./plugins/command.ts";

const env = systemEnv();
const stop = new AbortController();
const { version } = JSON.parse(readFileSync(new URL("./package.json", import.meta.url), "utf8")) as { version: string };

/** Returns the command that starts a server; `svc api`, `svc worker` and `svc scheduler` select one duty. */
function serveCommand(name: "serve" | Duty): Command {
  return {
    summary: name === "serve" ? "Start the server." : `Start a process of a deployment with the duty ${name}.`,
    options: {
      ...(name === "serve" && {
        role: { type: "string", value: "ROLE", help: `Duty of the process: all, ${allDuties.join(", ")} (all).` },
      }),
      "shares-port": { type: "boolean", help: "Share the port with other processes, as those of SVC_WORKERS do." },
    },
    positionals: [],
    run: (args, io) => serveAs(name, args, io),
  };
}

async function serveAs(name: "serve" | Duty, args: CommandArgs, { environment, stop }: CommandIo): Promise<Outcome> {
  const role = name === "serve" ? textOption(args, "role", "all") : name;
  const duty = allDuties.find((known) => known === role);
  if (duty === undefined && role !== "all") throw new UsageError(`--role must be one of all, ${allDuties.join(", ")}.`);
  const given = environment.SVC_PROCESS_ROLE?.trim().toLowerCase() ?? "";
  if (duty !== undefined && !["", "all", "cli", duty].includes(given))
    throw new UsageError(`SVC_PROCESS_ROLE is ${given}, and the command starts a process with the duty ${duty}.`);
  // Signals are handled from here on, so that slow loading before the server is ready can be interrupted too.
  listenForSignals();
  const { settings, plugins } = await loadDeployment(
    duty === undefined ? environment : { ...environment, SVC_PROCESS_ROLE: duty },
  );
  const refusals = bootRefusals(settings, pluginProviders(plugins));
  if (refusals.length > 0)
    return { code: 1, json: { ok: false, error: "boot_refused", refusals }, text: refusals.join("\n") };
  const done: Outcome = { code: 0, json: { ok: true }, text: "" };
  const terminal = process.stdout.isTTY === true && !process.argv.includes("--json");
  const sharesPort = args.options["shares-port"] === true;
  if (settings.workers > 1 && !sharesPort) {
    const { superviseWorkers } = await import("./host/worker-processes.ts");
    const json = process.argv.includes("--json") ? ["--json"] : [];
    const program = {
      path: fileURLToPath(import.meta.url),
      nodeArgs: ["--import", fileURLToPath(new URL("./strip-types.js", import.meta.url))],
      args: [...(duty === undefined ? ["serve"] : [duty]), "--shares-port", ...json],
      environment: process.env,
    };
    const onReplace = (callback: () => void): void => void process.on("SIGUSR2", callback);
    await superviseWorkers({ settings, program, env, stop, terminal, onReplace });
    return done;
  }
  // Threads get a copy of the environment, and only `svc mint-jwt` needs the signing key.
  delete process.env.SVC_JWKS_PRIVATE;
  // Each thread collects its own young objects. With helper threads a turn costs 10% more CPU time.
  setFlagsFromString("--no-parallel-scavenge");
  // V8 allocates objects in the old generation if many earlier ones from the same place survived. Objects of a run live for milliseconds.
  // An old one keeps everything that it references alive until a full collection. The effect is random and affected a fifth of a burst.
  setFlagsFromString("--no-allocation-site-pretenuring");
  // The heap is collected when it has doubled since the last collection. By default V8 waits longer under load: the soak of perf/ then
  // ends with 426 MiB instead of 298.
  setFlagsFromString("--heap-growing-percent=100");
  // uWebSockets.js reads this variable when it is loaded, once for all threads.
  process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(settings.httpMaxHeaderBytes);
  const { serve } = await import("./host/serve.ts");
  await serve(settings, { version, stop, terminal, sharesPort, parent: sharesPort ? parentChannel() : null });
  return done;
}

/** Returns the channel to the process that started this one; null without one. */
function parentChannel(): ParentChannel | null {
  if (process.send === undefined) return null;
  return {
    send: (message) => process.connected && process.send?.(message, undefined, undefined, () => {}),
    onMessage: (take) => void process.on("message", (message) => take(message as ToWorker)),
  };
}

const commands: Readonly<Record<(typeof commandNames)[number], Commands[string]>> = {
  serve: async () => serveCommand("serve"),
  api: async () => serveCommand("api"),
  worker: async () => serveCommand("worker"),
  scheduler: async () => serveCommand("scheduler"),
  migrate: async () => (await import("./host/cli/migrate.ts")).migrateCommand,
  doctor: async () => {
    const { installedBinaries, runsOnMusl } = await import("./host/cli/binaries.ts");
    const { arch, platform } = process;
    const binaries = installedBinaries(import.meta.dirname, platform, arch, runsOnMusl(platform));
    return (await import("./host/cli/doctor.ts")).doctorCommand(loadRegistries, binaries);
  },
  connections: async () => (await import("./host/cli/connections.ts")).connectionsCommand,
  "validate-manifest": async () =>
    (await import("./host/cli/validate-manifest.ts")).validateManifestCommand(loadRegistries),
  "mint-jwt": async () => (await import("./host/cli/mint-jwt.ts")).mintJwtCommand,
  keys: async () => (await import("./host/cli/keys.ts")).keysCommand,
  login: async () => (await import("./host/cli/login.ts")).loginCommand,
  task: async () => (await import("./host/cli/task.ts")).taskCommand,
  chat: async () => (await import("./host/cli/chat/chat-command.ts")).chatCommand,
  init: async () =>
    (await import("./host/cli/init.ts")).initCommand(
      fileURLToPath(new URL("./manifests/manifest.schema.json", import.meta.url)),
    ),
  threads: async () => (await import("./host/cli/threads.ts")).threadsCommand,
  skills: async () => (await import("./host/cli/skills.ts")).skillsCommand,
  approvals: async () => (await import("./host/cli/approvals.ts")).approvalsCommand,
  audit: async () => (await import("./host/cli/audit.ts")).auditCommand,
  plan: async () => (await import("./host/cli/manifest-look.ts")).planCommand(loadRegistries),
  policy: async () => (await import("./host/cli/manifest-look.ts")).policyCommand(loadRegistries),
  usage: async () => (await import("./host/cli/usage.ts")).usageCommand,
  runs: async () => (await import("./host/cli/runs.ts")).runsCommand,
  workflows: async () => (await import("./host/cli/workflows.ts")).workflowsCommand,
  docs: async () => (await import("./host/cli/docs/docs-command.ts")).docsCommand,
  "ingest-docs": async () => (await import("./host/cli/docs/docs-command.ts")).ingestDocsCommand,
  embeddings: async () => (await import("./host/cli/embeddings.ts")).embeddingsCommand,
  hosts: async () => (await import("./host/cli/hosts.ts")).hostsCommand,
  eval: async () => (await import("./host/cli/eval/eval-command.ts")).evalCommand,
  replay: async () => (await import("./host/cli/replay.ts")).replayCommand,
  chaos: async () => {
    const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
    const program = { path: process.execPath, args: ["--import", at("./strip-types.js"), at("./svc.ts")] };
    return (await import("./host/cli/chaos/chaos-command.ts")).chaosCommand(program, at("./plugins/chaos/chaos.ts"));
  },
  "shell-runner": async () => (await import("./host/cli/runner/shell-runner.ts")).shellRunnerCommand,
  backup: async () => (await import("./host/cli/backup.ts")).backupCommand(version),
  restore: async () => (await import("./host/cli/restore.ts")).restoreCommand,
  move: async () => (await import("./host/cli/move.ts")).moveCommand,
  completion: async () =>
    (await import("./host/cli/completion.ts")).completionCommand(async () => ({
      ...commands,
      ...(await unlessRefused(commandsOfPlugins)),
    })),
  version: async () => (await import("./host/cli/version.ts")).versionCommand(version),
};

/** Loads the commands of the plugins that SVC_PLUGINS names. */
async function commandsOfPlugins(): Promise<Commands> {
  if ((process.env.SVC_PLUGINS ?? "") === "") return {};
  const { pluginCommands } = await import("./host/cli/plugin-commands.ts");
  return pluginCommands(await loadDeployment(process.env));
}

/** Returns the names that the commands check manifests against. */
async function loadRegistries({ settings, plugins }: Deployment): Promise<Registries> {
  const { createModels } = await import("./actors/models/create-models.ts");
  const { builtInSource } = await import("./actors/tools/registry/built-in.ts");
  const { registriesOf } = await import("./actors/tools/registry/registries.ts");
  const { patterns } = await import("./actors/run/patterns/patterns.ts");
  const { SecretMask, Secrets } = await import("./governance/secret-mask.ts");
  return registriesOf(settings, {
    secrets: new Secrets(settings, new SecretMask([])),
    models: createModels(settings, env, undefined, pluginProviders(plugins)),
    toolSources: [builtInSource, ...pluginOffers(plugins)],
    patterns: new Map([...patterns, ...pluginPatterns(plugins)]),
    extensions: pluginExtensions(plugins),
  });
}

/** Under npm one Ctrl-C arrives twice: from the terminal, and forwarded by npm. */
const sameSignalMs = 300;

/** Drains the server after the first signal, or after the launcher (svc.js) or npm has ended. A second signal ends the process at once. */
function listenForSignals(): void {
  let askedAt = Number.NEGATIVE_INFINITY;
  const onSignal = (): void => {
    const now = env.monotonic();
    if (!stop.signal.aborted) askedAt = now;
    else if (now - askedAt > sameSignalMs) process.exit(1);
    stop.abort();
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  // The terminal was closed.
  process.on("SIGHUP", onSignal);
  process.on("disconnect", () => stop.abort());
}

/** The current width and colour support of a terminal; null for a pipe or a file. */
function terminalOf(stream: NodeJS.WriteStream): Terminal | null {
  // https://no-color.org
  const colours = !process.env.NO_COLOR && process.env.TERM !== "dumb";
  return stream.isTTY ? { columns: stream.columns || 80, colours } : null;
}

const talk: Talk = {
  get input() {
    return process.stdin;
  },
  output: process.stdout,
  notes: process.stderr,
  notesTerminal: () => terminalOf(process.stderr),
  program: basename(process.argv[1] ?? "") === "svc" ? "svc" : "node svc.js",
  onInterrupt(callback) {
    let heardAt = Number.NEGATIVE_INFINITY;
    process.on("SIGINT", () => {
      const now = env.monotonic();
      if (now - heardAt > sameSignalMs) callback();
      heardAt = now;
    });
  },
};

// A closed pipe, as in `svc … | head`, is no error. 141 is the shell's exit code for SIGPIPE. The server's log uses another stream.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 141 : 1));

const io = {
  ...{ env, environment: process.env, stop: stop.signal, talk },
  terminal: terminalOf(process.stdout),
};
const { code, stdout, stderr } = await dispatch(process.argv.slice(2), commands, io, commandsOfPlugins);
await new Promise<void>((resolve) => process.stdout.write(stdout, () => resolve()));
await new Promise<void>((resolve) => process.stderr.write(stderr, () => resolve()));
// An explicit exit, because an idle connection to a model or a database would keep the process alive.
process.exit(code);
