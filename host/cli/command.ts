import type { Readable, Writable } from "node:stream";
import type { Env } from "../../bus/env.ts";
import type { Environment } from "../../governance/settings/settings.ts";
import { type CommandArgs, type CommandUsage, type Outcome, UsageError } from "../../plugins/command.ts";
import type { Terminal } from "./list-table.ts";

/** The environment of a command, apart from files and the network. */
export interface CommandIo {
  readonly env: Env;
  /** The environment variables of the process. */
  readonly environment: Environment;
  /** Aborts when the process is asked to stop. */
  readonly stop: AbortSignal;
  /** Null if the output is not a terminal. */
  readonly terminal: Terminal | null;
  readonly talk: Talk;
}

/** Streams of a command that prints while it runs. */
export interface Talk {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable;
  /** For output that is not part of the result. */
  readonly notes: Writable;
  /** The terminal of `notes` with its current width; null if it is not a terminal. */
  notesTerminal(): Terminal | null;
  /** The command line as the user calls it: `svc` if that is installed, otherwise `node svc.js`. */
  readonly program: string;
  /** Calls back on each Ctrl-C, which then does not end the process. */
  onInterrupt(callback: () => void): void;
}

/** One subcommand. */
export interface Command extends CommandUsage {
  run(args: CommandArgs, io: CommandIo): Promise<Outcome>;
}

/** Returns the value of a string option, or `fallback` if it was not given. */
export function textOption(args: CommandArgs, name: string, fallback: string): string {
  const value = args.options[name];
  return typeof value === "string" ? value : fallback;
}

/** Returns the items of a comma-separated option. */
export function listOption(args: CommandArgs, name: string, fallback: string): readonly string[] {
  return textOption(args, name, fallback)
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** Parses a time option to epoch milliseconds; null if it was not given. */
export function readTime(name: string, text: string): number | null {
  if (text === "") return null;
  const at = /^\d{1,16}$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isSafeInteger(at) || at < 0)
    throw new UsageError(`--${name} must be a time in ISO 8601 or epoch milliseconds.`);
  return at;
}

/** Returns the outcome of a failed command. */
export function failed(code: 1 | 2, error: string, message: string): Outcome {
  return { code, json: { ok: false, error, message }, text: message };
}
