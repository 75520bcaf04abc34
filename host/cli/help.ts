import type { Command } from "./command.ts";

/** Returns the page of `svc help` for a terminal width. */
export function overview(commands: readonly (readonly [string, Command])[], columns = Infinity): string {
  const rows = commands.map(([name, command]): [string, string] => [usage(name, command), command.summary]);
  return `Usage: svc <command> [options]

${table(rows, columns)}

Every command takes --json, which prints one JSON object, and --help.
Settings are read from the environment; "svc doctor" shows them.`;
}

/** Returns the page of `svc help <command>` for a terminal width. */
export function commandHelp(name: string, command: Command, columns = Infinity): string {
  const rows = Object.entries(command.options).map(([option, { short, value, help }]): [string, string] => [
    `${short ? `-${short}, ` : ""}--${option}${value ? ` ${value}` : ""}`,
    help,
  ]);
  const options = rows.length === 0 ? "" : `\n\n${table(rows, columns)}`;
  const usageLine = `Usage: svc ${usage(name, command)}${rows.length === 0 ? "" : " [options]"}`;
  const told = [command.summary, ...wordsLine(command)].flatMap((line) => wrapped(line, columns));
  return [usageLine, "", ...told].join("\n") + options;
}

/** Returns the allowed values of the first argument; the first one is the default if the argument is optional. */
function wordsLine({ positionals: [first = ""], words = [] }: Command): string[] {
  const stands = first.replaceAll(/[[\]]/g, "");
  if (words.length === 0 || words.includes(stands)) return [];
  return [`${stands} is one of ${words.join(", ")}${stands === first ? "" : ` (${words[0]})`}.`];
}

function usage(name: string, { positionals }: Command): string {
  return [name, ...positionals].join(" ");
}

/** Renders two columns. The first is as wide as its widest text; the second wraps at the terminal's width. */
export function table(rows: readonly (readonly [string, string])[], columns = Infinity): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  const room = columns - width - 4;
  return rows
    .flatMap(([left, right]) =>
      // A very narrow column is harder to read than lines that the terminal wraps.
      (room < roomMin ? [right] : wrapped(right, room)).map((line, at) =>
        `  ${(at === 0 ? left : "").padEnd(width)}  ${line}`.trimEnd(),
      ),
    )
    .join("\n");
}

const roomMin = 20;

/** Wraps text at blanks to a width; longer words stay whole. */
function wrapped(text: string, columns: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line === "") lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= columns) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
