import type { Command } from "./command.ts";

/** The page of `svc help`. */
export function overview(commands: readonly (readonly [string, Command])[]): string {
  const rows = commands.map(([name, command]): [string, string] => [usage(name, command), command.summary]);
  return `Usage: svc <command> [options]

${table(rows)}

Every command takes --json, which prints one JSON object, and --help.
Settings are read from the environment; "svc doctor" shows them.`;
}

/** The page of `svc help <command>`. */
export function commandHelp(name: string, command: Command): string {
  const rows = Object.entries(command.options).map(([option, { short, value, help }]): [string, string] => [
    `${short ? `-${short}, ` : ""}--${option}${value ? ` ${value}` : ""}`,
    help,
  ]);
  const options = rows.length === 0 ? "" : `\n\n${table(rows)}`;
  const usageLine = `Usage: svc ${usage(name, command)}${rows.length === 0 ? "" : " [options]"}`;
  return `${usageLine}\n\n${command.summary}${wordsLine(command)}${options}`;
}

/** What the first argument may be; the first word is meant where it is left out. */
function wordsLine({ positionals: [first = ""], words = [] }: Command): string {
  const stands = first.replaceAll(/[[\]]/g, "");
  if (words.length === 0 || words.includes(stands)) return "";
  return `\n${stands} is one of ${words.join(", ")}${stands === first ? "" : ` (${words[0]})`}.`;
}

function usage(name: string, { positionals }: Command): string {
  return [name, ...positionals].join(" ");
}

/** Two columns, the first as wide as its widest text. */
export function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd()).join("\n");
}
