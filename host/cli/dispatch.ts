import { type ParseArgsConfig, parseArgs } from "node:util";
import { meant } from "../../bus/nearest.ts";
import { errorText } from "../../governance/settings/problem-lines.ts";
import { settingNames } from "../../governance/settings/settings.ts";
import { SettingsError } from "../../governance/settings/settings-error.ts";
import { type CommandArgs, type Outcome, UsageError } from "../../plugins/command.ts";
import { type Command, type CommandIo, failed } from "./command.ts";
import { commandHelp, overview } from "./help.ts";
import { savedLogin } from "./login-file.ts";
import { serverUrl } from "./server-call.ts";
import { harmless } from "./terminal-text.ts";

/** Commands by name, each loaded on demand. */
export type Commands = Readonly<Record<string, () => Promise<Command>>>;

/** The output and the exit code. */
export interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Loads the commands of plugins. Rejects with a SettingsError if a plugin cannot be loaded. */
export type LoadCommands = () => Promise<Commands>;

/**
 * Runs the command that the arguments name. Plugins are loaded only for a name that `commands` lacks, and for the list of all
 * commands. Never rejects.
 */
export async function dispatch(
  argv: readonly string[],
  commands: Commands,
  io: CommandIo,
  ofPlugins: LoadCommands = async () => ({}),
): Promise<Printed> {
  const json = argv.includes("--json");
  return print(await outcomeOf(argv, { own: commands, ofPlugins }, io), json);
}

/** Returns the environment of a command. Without SVC_KEY, a command with --url gets the token of `svc login`. */
function signedIn({ options }: Command, args: CommandArgs, io: CommandIo): CommandIo {
  const { environment, env } = io;
  if (!Object.hasOwn(options, "url") || (environment.SVC_KEY ?? "") !== "") return io;
  const login = savedLogin(serverUrl(args, environment), environment, env.now());
  return login === null ? io : { ...io, environment: { ...environment, SVC_KEY: login.token } };
}

/** The commands of svc, and those of its plugins. */
interface Known {
  readonly own: Commands;
  readonly ofPlugins: LoadCommands;
}

async function outcomeOf(argv: readonly string[], known: Known, io: CommandIo): Promise<Outcome> {
  const [first, ...rest] = argv.filter((arg) => arg !== "--json");
  const name = aliases.get(first ?? "") ?? first;
  let isFound = false;
  try {
    if (name === undefined) return { ...(await overviewOf(known, io)), code: 2 };
    if (name === "help") return await help(known, rest, io);
    if (rest.includes("--help") || rest.includes("-h")) return await help(known, [name], io);
    const command = await find(known, name);
    isFound = true;
    const args = { ...parse(name, command, rest), json: argv.includes("--json") };
    return await command.run(args, signedIn(command, args, io));
  } catch (error) {
    if (error instanceof UsageError) {
      const page = isFound ? `svc help ${name}` : "svc help";
      return failed(2, "usage", `${error.message}\nRun "${page}" for its usage.`);
    }
    if (error instanceof SettingsError) {
      const { issues } = error;
      return { code: 1, json: { ok: false, error: "invalid_settings", issues }, text: error.message };
    }
    return failed(1, "failed", `${errorText(error)}${installHint(error)}`);
  }
}

/** Returns a hint for a clone without installed packages. */
function installHint(error: unknown): string {
  const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
  return isMissing && error.message.startsWith("Cannot find package") ? '\nRun "npm ci" first.' : "";
}

const aliases: ReadonlyMap<string, string> = new Map([
  ["--help", "help"],
  ["-h", "help"],
  ["--version", "version"],
  ["-V", "version"],
  ["-v", "version"],
]);

async function find({ own, ofPlugins }: Known, name: string): Promise<Command> {
  const commands = Object.hasOwn(own, name) ? own : { ...own, ...(await ofPlugins()) };
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!load) throw new UsageError(`svc has no command ${JSON.stringify(name)}${meant(name, Object.keys(commands))}.`);
  return load();
}

async function help(known: Known, [name]: readonly string[], io: CommandIo): Promise<Outcome> {
  if (name === undefined) return overviewOf(known, io);
  const command = await find(known, name);
  const { summary, options, positionals, words } = command;
  return {
    code: 0,
    json: { ok: true, command: name, summary, positionals, ...(words && { words }), options },
    text: commandHelp(name, command, io.terminal?.columns),
  };
}

/** Lists all commands; without those of plugins if a plugin cannot be loaded, because the help must not fail. */
async function overviewOf({ own, ofPlugins }: Known, { terminal }: CommandIo): Promise<Outcome> {
  const more = await unlessRefused(ofPlugins);
  const all: [string, Command][] = [];
  for (const [each, load] of Object.entries({ ...own, ...more })) all.push([each, await load()]);
  const commands = all.map(([each, { summary }]) => ({ name: each, summary }));
  const page = overview(all, terminal?.columns);
  if (more !== null) return { code: 0, json: { ok: true, commands }, text: page };
  const problem = 'The commands of plugins are missing, because a setting or a plugin is invalid: run "svc doctor".';
  return { code: 0, json: { ok: true, commands, problem }, text: `${page}\n\n${problem}` };
}

/** Returns the commands of plugins; null if a setting or a plugin is invalid. */
export async function unlessRefused(ofPlugins: LoadCommands): Promise<Commands | null> {
  try {
    return await ofPlugins();
  } catch (error) {
    if (error instanceof SettingsError) return null;
    throw error;
  }
}

function parse(name: string, command: Command, argv: readonly string[]): Omit<CommandArgs, "json"> {
  try {
    const options = Object.fromEntries(
      Object.entries(command.options).map(([option, { type, short }]) => [option, { type, ...(short && { short }) }]),
    );
    refuseUnknownOption(name, options, argv);
    const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
    const needed = command.positionals.filter((name) => !name.startsWith("["));
    if (positionals.length < needed.length) throw new UsageError(`${needed[positionals.length]} is missing.`);
    if (positionals.length > command.positionals.length) {
      const takes = command.positionals.join(" ") || "no arguments";
      const extra = JSON.stringify(positionals[command.positionals.length]);
      throw new UsageError(`Unexpected argument ${extra}: svc ${name} takes ${takes}.`);
    }
    return { options: values as CommandArgs["options"], positionals };
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError((error as Error).message);
  }
}

/** Replaces the parser's message for unknown options, which explains arguments that begin with a dash. */
function refuseUnknownOption(
  command: string,
  options: NonNullable<ParseArgsConfig["options"]>,
  argv: readonly string[],
): void {
  const { tokens } = parseArgs({ args: [...argv], options, allowPositionals: true, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind !== "option" || Object.hasOwn(options, token.name)) continue;
    // Report the option as it was typed: the parser splits -json into four short options.
    const [typed = token.rawName] = (argv[token.index] ?? "").split("=", 1);
    const known = [...Object.keys(options), "json", "help"].map((option) => `--${option}`);
    const setting = `SVC_${typed.replace(/^-+/, "").replaceAll("-", "_").toUpperCase()}`;
    const hint = settingNames().includes(setting) ? ` ${setting} in the environment sets this.` : "";
    throw new UsageError(`svc ${command} has no option ${typed}${meant(typed, known)}.${hint}`);
  }
}

function print({ code, json, text, report }: Outcome, asJson: boolean): Printed {
  if (asJson) return { code, stdout: `${JSON.stringify(json)}\n`, stderr: "" };
  const line = text === "" ? "" : `${text}\n`;
  if (code === 0 || report) return { code, stdout: line, stderr: "" };
  // The text may quote a file or a server.
  return { code, stdout: "", stderr: harmless(line) };
}
