import type { Readable, Writable } from "node:stream";
import type { Env } from "../../bus/env.ts";
import type { Environment } from "../../governance/settings/settings.ts";
import type { Terminal } from "./list-table.ts";

/** What a command may touch besides files and the network. */
export interface CommandIo {
  readonly env: Env;
  /** The variables of the process. */
  readonly environment: Environment;
  /** Ends when the process is asked to stop. */
  readonly stop: AbortSignal;
  /** Null where the answer goes elsewhere. */
  readonly terminal: Terminal | null;
  readonly talk: Talk;
}

/** What a command uses that speaks while it runs. */
export interface Talk {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable;
  /** For what is no part of the answer. */
  readonly notes: Writable;
  /** What `notes` are written to, as wide as it is now; null where they go elsewhere. */
  notesTerminal(): Terminal | null;
  /** How the command line is called where it was called: `svc` where that is a program, else `node svc.js`. */
  readonly program: string;
  /** Calls back whenever the process is asked to stop what it does (Ctrl-C), which then does not end it. */
  onInterrupt(callback: () => void): void;
}

/** How a command ended. `json` is the answer of --json; `text` is for people, on stdout when the code is 0, else on stderr. */
export interface Outcome {
  readonly code: ExitCode;
  readonly json: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** Prints `text` on stdout whatever the code: it is what was asked for, good news or bad. */
  readonly report?: true;
}

/** 1 when it did not work, 2 when it was asked for wrongly or refused, 3 when it proves nothing, 130 when it was interrupted. */
type ExitCode = 0 | 1 | 2 | 3 | 130;

interface CommandOption {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** What stands for the value in the help. */
  readonly value?: string;
  readonly help: string;
}

/** The words of a command line, sorted. */
export interface CommandArgs {
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  readonly positionals: readonly string[];
  /** Whether --json was given. */
  readonly json: boolean;
}

/** One subcommand: what it takes, and what it does. */
export interface Command {
  /** One line. */
  readonly summary: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  /** In their order; those in brackets may be left out. */
  readonly positionals: readonly string[];
  /** What the first of them may be, where that is one of some words; the first word where it may be left out. */
  readonly words?: readonly string[];
  run(args: CommandArgs, io: CommandIo): Promise<Outcome>;
}

/** The command line is wrong. The message says how. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The value of a string option, `fallback` when it was not given. */
export function textOption(args: CommandArgs, name: string, fallback: string): string {
  const value = args.options[name];
  return typeof value === "string" ? value : fallback;
}

/** The items of a comma list. */
export function listOption(args: CommandArgs, name: string, fallback: string): readonly string[] {
  return textOption(args, name, fallback)
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** The time of an option, in epoch milliseconds; null where it was not given. */
export function readTime(name: string, text: string): number | null {
  if (text === "") return null;
  const at = /^\d{1,16}$/.test(text) ? Number(text) : Date.parse(text);
  if (!Number.isSafeInteger(at) || at < 0)
    throw new UsageError(`--${name} must be a time in ISO 8601 or epoch milliseconds.`);
  return at;
}

/** The outcome of a command that did not do what it was asked for. */
export function failed(code: 1 | 2, error: string, message: string): Outcome {
  return { code, json: { ok: false, error, message }, text: message };
}
