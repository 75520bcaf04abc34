import { type ReadLine, readLine, type SimpleCommand, type Word } from "./shell-words.ts";

/** A program that a call starts, with its arguments, after all wrappers. */
export interface Program {
  /** Name of the program without its folder, in lower case. */
  readonly name: string;
  readonly args: readonly string[];
  /** Assignments of variables before it. */
  readonly variables: readonly string[];
  readonly writes: readonly string[];
  /** The programs whose output it reads, nearest first. */
  readonly from: readonly string[];
  /** Wrappers that it runs under, as sudo. */
  readonly under: readonly string[];
}

/** The programs of a command, and whether some of it could not be read. */
export interface ReadCommand {
  readonly programs: readonly Program[];
  readonly isUnclear: boolean;
}

export const shells: ReadonlySet<string> = new Set(["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash"]);
/** Options of wrappers that take a value. */
const valued: Readonly<Record<string, RegExp>> = {
  sudo: /^(?:-[ugphCTRD]|--(?:user|group|prompt|host|chdir|chroot))$/,
  doas: /^-[uC]$/,
  env: /^(?:-[uC]|--unset|--chdir)$/,
  nice: /^(?:-n|--adjustment)$/,
  ionice: /^-[cnp]$/,
  timeout: /^(?:-[ks]|--signal|--kill-after)$/,
  stdbuf: /^-[ioe]$/,
  xargs: /^(?:-[IiEeLlnPsda]|--(?:replace|max-args|max-procs|delimiter|arg-file|max-lines))$/,
  nohup: /^$/,
  setsid: /^$/,
  time: /^(?:-[of])$/,
  exec: /^-a$/,
  command: /^$/,
  builtin: /^$/,
  chroot: /^$/,
  watch: /^(?:-n|--interval)$/,
  parallel: /^(?:-j|--jobs)$/,
  strace: /^-[eopsuE]$/,
  unshare: /^$/,
  flock: /^-[wE]$/,
  runuser: /^-[ug]$/,
  caffeinate: /^$/,
  busybox: /^$/,
  toybox: /^$/,
  proxychains: /^-f$/,
};
/** Wrappers whose first argument is not the command. */
const operands: Readonly<Record<string, number>> = { timeout: 1, chroot: 1, flock: 1 };
const depthMax = 12;

/** Reads the words of a call that no shell reads. */
export function readArguments(argv: readonly string[]): ReadCommand {
  const reader = new CommandReader();
  reader.take({ words: argv.map((text) => ({ text, isDynamic: false })), writes: [], from: null }, [], 0);
  return reader;
}

/** Reads a line for a shell. */
export function readShell(text: string): ReadCommand {
  const reader = new CommandReader();
  reader.line(readLine(text), [], 0);
  return reader;
}

/** Max programs of one command. A command that starts more is unclear. */
const programsMax = 128;
/** Max words that are kept of the programs before a pipe. */
const fromMax = 16;

class CommandReader implements ReadCommand {
  readonly programs: Program[] = [];
  isUnclear = false;

  line({ commands, isUnclear }: ReadLine, under: readonly string[], depth: number): void {
    this.isUnclear ||= isUnclear;
    for (const command of commands) this.take(command, under, depth);
  }

  take(command: SimpleCommand, under: readonly string[], depth: number): void {
    const { words, writes } = command;
    const first = words.findIndex(({ text }) => !/^[A-Za-z_][A-Za-z0-9_]*\+?=/.test(text));
    const variables = words.slice(0, first < 0 ? words.length : first).map(({ text }) => text);
    const [program, ...rest] = first < 0 ? [] : words.slice(first);
    const name =
      (program?.text ?? "")
        .split(/[\\/]/)
        .at(-1)
        ?.toLowerCase()
        .replace(/\.exe$/, "") ?? "";
    // The shell replaces braces and globs by names that are unknown here.
    if (depth > depthMax || program?.isDynamic || /[{*?[]/.test(program?.text ?? "")) this.isUnclear = true;
    if (this.programs.length >= programsMax) {
      this.isUnclear = true;
      return;
    }
    const args = rest.map(({ text }) => text);
    this.programs.push({ name, args, variables, writes, from: namesOf(command.from), under });
    if (depth > depthMax) return;
    this.#inside(name, rest, command, [...under, name], depth + 1);
  }

  /** Reads the commands that a program starts. */
  #inside(name: string, rest: readonly Word[], command: SimpleCommand, under: readonly string[], depth: number): void {
    const args = rest.map(({ text }) => text);
    if (shells.has(name) || name === "su" || name === "script") {
      const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg) || arg === "--command");
      if (at >= 0) this.#script(rest[at + 1], under, depth);
    } else if (name === "eval" || name === "ssh") {
      const from = name === "eval" ? 0 : sshCommand(args);
      this.isUnclear ||= name === "eval" && rest.some(({ isDynamic }) => isDynamic);
      if (from < args.length) this.line(readLine(args.slice(from).join(" "), depth), under, depth);
    } else if (name === "find" || name === "fd") this.#ofFind(rest, under, depth);
    else if (name === "env" && args.some((arg) => /^(?:-S|--split-string)/.test(arg))) {
      const at = args.findIndex((arg) => /^(?:-S|--split-string)/.test(arg));
      const text = (args[at] ?? "").replace(/^(?:-S|--split-string=?)/, "") || (args[at + 1] ?? "");
      this.line(readLine(text, depth), under, depth);
    } else if (Object.hasOwn(valued, name)) {
      const inner = withoutOptions(name, rest);
      if (name === "watch" || (name === "parallel" && inner.length > 0))
        this.line(readLine(inner.map(({ text }) => text).join(" "), depth), under, depth);
      else if (inner.length > 0) this.take({ words: inner, writes: [], from: command.from }, under, depth);
    } else if (name === "docker" || name === "podman" || name === "kubectl") {
      const at = args.findIndex((arg) => shells.has(arg.split("/").at(-1) ?? ""));
      if (at >= 0) this.take({ words: rest.slice(at), writes: [], from: null }, under, depth);
    }
  }

  #script(script: Word | undefined, under: readonly string[], depth: number): void {
    if (script === undefined || script.isDynamic) this.isUnclear = true;
    if (script !== undefined) this.line(readLine(script.text, depth), under, depth);
  }

  #ofFind(rest: readonly Word[], under: readonly string[], depth: number): void {
    for (const [at, { text }] of rest.entries()) {
      if (!/^(?:-exec|-execdir|-ok|-okdir|-x|-X|--exec|--exec-batch)$/.test(text)) continue;
      const after = rest.slice(at + 1);
      const end = after.findIndex((word) => word.text === ";" || word.text === "+");
      this.take({ words: end < 0 ? after : after.slice(0, end), writes: [], from: null }, under, depth);
    }
  }
}

/** Returns the command after the options, variables and operands of a wrapper. */
function withoutOptions(name: string, words: readonly Word[]): readonly Word[] {
  let at = 0;
  while (at < words.length) {
    const { text } = words[at] as Word;
    if (text === "--") {
      at++;
      break;
    }
    if (valued[name]?.test(text)) at += 2;
    else if (text.startsWith("-") && text !== "-") at++;
    else if ((name === "env" || name === "sudo" || name === "doas") && /^[A-Za-z_][A-Za-z0-9_]*=/.test(text)) at++;
    else break;
  }
  return words.slice(at + (operands[name] ?? 0));
}

/** Returns the position of the remote command of ssh. */
function sshCommand(args: readonly string[]): number {
  let at = 0;
  while (at < args.length && args[at]?.startsWith("-")) at += /^-[bcDEeFIiJLlmOopQRSWw]$/.test(args[at] ?? "") ? 2 : 1;
  return at + 1;
}

function namesOf(command: SimpleCommand | null): string[] {
  const names: string[] = [];
  for (let next = command; next !== null && names.length < fromMax; next = next.from)
    names.push(...next.words.slice(0, 4).map(({ text }) => text.split("/").at(-1) ?? ""));
  return names;
}
