import type { Command } from "./command.ts";

/** The page of `svc help`, for a terminal of so many columns. */
export function overview(commands: readonly (readonly [string, Command])[], columns = Infinity): string {
  const rows = commands.map(([name, command]): [string, string] => [usage(name, command), command.summary]);
  return `Usage: svc <command> [options]

${table(rows, columns)}

Every command takes --json, which prints one JSON object, and --help.
Settings are read from the environment; "svc doctor" shows them.`;
}

/** The page of `svc help <command>`, for a terminal of so many columns. */
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

/** What the first argument may be; the first word is meant where it is left out. */
function wordsLine({ positionals: [first = ""], words = [] }: Command): string[] {
  const stands = first.replaceAll(/[[\]]/g, "");
  if (words.length === 0 || words.includes(stands)) return [];
  return [`${stands} is one of ${words.join(", ")}${stands === first ? "" : ` (${words[0]})`}.`];
}

function usage(name: string, { positionals }: Command): string {
  return [name, ...positionals].join(" ");
}

/** Two columns, the first as wide as its widest text; the second goes on below itself where the terminal ends. */
export function table(rows: readonly (readonly [string, string])[], columns = Infinity): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  const room = columns - width - 4;
  return rows
    .flatMap(([left, right]) =>
      // Columns of a few letters are harder to read than lines that the terminal breaks.
      (room < roomMin ? [right] : wrapped(right, room)).map((line, at) =>
        `  ${(at === 0 ? left : "").padEnd(width)}  ${line}`.trimEnd(),
      ),
    )
    .join("\n");
}

const roomMin = 20;

/** A line as lines of at most so many columns, broken at blanks; a longer word stays whole. */
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
