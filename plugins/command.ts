import type { Env } from "../bus/env.ts";
import type { Settings } from "../governance/settings/settings.ts";

/** The result of a command. `json` is printed with --json. `text` goes to stdout if the code is 0, otherwise to stderr. */
export interface Outcome {
  readonly code: ExitCode;
  readonly json: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** Prints `text` on stdout whatever the code is, because it is a report. */
  readonly report?: true;
}

/** 1: failure; 2: wrong usage or refused; 3: inconclusive; 130: interrupted. */
type ExitCode = 0 | 1 | 2 | 3 | 130;

interface CommandOption {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** Placeholder of the value in the help. */
  readonly value?: string;
  readonly help: string;
}

/** A parsed command line. */
export interface CommandArgs {
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  readonly positionals: readonly string[];
  /** True if --json was given. */
  readonly json: boolean;
}

/** The usage of a command, from which its help and its completion are made. */
export interface CommandUsage {
  /** One line. */
  readonly summary: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  /** In order; those in brackets are optional. */
  readonly positionals: readonly string[];
  /** Allowed values of the first positional; the first of them is the default if the positional is optional. */
  readonly words?: readonly string[];
}

/** A command of a plugin: `svc <name>`. The option `url` is added to it, and `--json` and `--help` as to every command. */
export interface PluginCommand extends CommandUsage {
  run(args: CommandArgs, services: CommandServices): Outcome | Promise<Outcome>;
}

/** Services for a command, which runs in a process of its own: it works on a server by that server's routes. */
export interface CommandServices {
  readonly settings: Settings;
  readonly env: Env;
  /** Aborts when the process is asked to stop. */
  readonly stop: AbortSignal;
  /** Sends a request with the key in SVC_KEY to the server at --url. Rejects with a readable message if there is no answer. */
  ask(method: "GET" | "POST", path: string, body?: object): Promise<ServerAnswer>;
  /** Prints a line on stderr while the command runs. */
  note(line: string): void;
}

/** A response of the server. */
export interface ServerAnswer {
  readonly status: number;
  readonly body: string;
}

/** The command line is wrong; the message explains how. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
