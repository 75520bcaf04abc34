import type { RE2JS } from "re2js";
import type { CompiledCommandScreening } from "../../manifests/sections/command-screening.ts";
import { type CommandFinding, defaultFinding, isForkBomb } from "./default-rules.ts";
import { type Program, type ReadCommand, readArguments, readShell, shells } from "./read-command.ts";

/** The verdict on a command; null if it may run. */
export type CommandDecision = CommandFinding | null;

const unclear: CommandFinding = { decision: "require_approval", reason: "the command cannot be read" };
const charsMax = 32_768;

/**
 * Judges the command of a call. Each program of it, also under wrappers, is judged alone, and the strictest decision holds (decision
 * 193). For a program the operator's rules come first, then the built-in ones; the first that matches decides.
 */
export async function screenCommand(args: unknown, screening: CompiledCommandScreening): Promise<CommandDecision> {
  const { argv, command, stdin } = args as {
    readonly argv?: unknown;
    readonly command?: unknown;
    readonly stdin?: unknown;
  };
  const text = textOf(argv) ?? textOf(command);
  if (text === null) return null;
  if (text.length > charsMax) return unclear;
  const read = Array.isArray(argv)
    ? readArguments(argv.map(String))
    : Array.isArray(command)
      ? readArguments(command.map(String))
      : readShell(text);
  const patterns = await patternsOf(screening).catch(() => null);
  // The manifest was stored with a pattern that this engine refuses.
  if (patterns === null) return unclear;
  const input = typeof stdin === "string" ? readInput(read.programs, stdin) : null;
  const programs = input === null ? read.programs : [...read.programs, ...input.programs];
  const found = programs.flatMap((program) => judged(program, patterns, screening.include_defaults) ?? []);
  if (screening.include_defaults && isForkBomb(text))
    found.push({ decision: "deny", reason: "starts itself without end" });
  if ((read.isUnclear || input?.isUnclear) && !isAllowed(text, patterns)) found.push(unclear);
  return found.find(({ decision }) => decision === "deny") ?? found[0] ?? null;
}

/** Programs that run the text of their standard input. */
const interpreters =
  /^(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua|psql|mysql|mariadb|sqlite3|osascript|pwsh|powershell)$/;

/** Reads the standard input that a shell or another interpreter runs as a program. Returns null for other commands. */
function readInput(programs: readonly Program[], stdin: string): ReadCommand | null {
  if (stdin.trim() === "") return null;
  if (stdin.length > charsMax) return { programs: [], isUnclear: true };
  if (programs.some(({ name }) => shells.has(name))) return readShell(stdin);
  return programs.some(({ name }) => interpreters.test(name)) ? { programs: [], isUnclear: true } : null;
}

/** A rule of the operator with its pattern. */
interface Pattern {
  readonly pattern: RE2JS;
  readonly decision: "allow" | "deny" | "require_approval";
  readonly reason: string;
}

const compiled = new WeakMap<CompiledCommandScreening, Promise<readonly Pattern[]>>();

function patternsOf(screening: CompiledCommandScreening): Promise<readonly Pattern[]> {
  let patterns = compiled.get(screening);
  if (patterns === undefined) {
    patterns = compilePatterns(screening);
    compiled.set(screening, patterns);
  }
  return patterns;
}

async function compilePatterns({ rules }: CompiledCommandScreening): Promise<readonly Pattern[]> {
  if (rules.length === 0) return [];
  const { RE2JS } = await import("re2js");
  return rules.map(({ pattern, decision, reason }) => ({
    ...{ pattern: RE2JS.compile(pattern), decision },
    reason: reason ?? `matches ${pattern}`,
  }));
}

function judged(program: Program, patterns: readonly Pattern[], withDefaults: boolean): CommandFinding | null {
  const line = [program.name, ...program.args].join(" ");
  for (const { pattern, decision, reason } of patterns)
    if (pattern.matcher(line).find()) return decision === "allow" ? null : { decision, reason };
  return withDefaults ? defaultFinding(program) : null;
}

/** True if an operator's rule allows the whole text, which the reader cannot read. */
function isAllowed(text: string, patterns: readonly Pattern[]): boolean {
  const first = patterns.find(({ pattern }) => pattern.matcher(text).find());
  return first?.decision === "allow";
}

function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.map(String).join(" ") : null;
}
