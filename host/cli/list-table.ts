import { cutTo, inert, widthOf } from "./terminal-text.ts";

/** A terminal that a command writes to. */
export interface Terminal {
  readonly columns: number;
  /** True if colours are allowed. */
  readonly colours: boolean;
}

/** The content of a table. */
interface TableOf {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The status column. It is coloured, and it and the columns before it are never cut. -1 for none. */
  readonly statusAt: number;
}

const gap = "  ";
/** A column is cut to this width at most, then dropped. */
const cellMin = 8;
const colours: Readonly<Record<string, string>> = {
  approved: "\u001b[32m",
  pass: "\u001b[32m",
  fail: "\u001b[31m",
  error: "\u001b[31m",
  completed: "\u001b[32m",
  running: "\u001b[36m",
  pending: "\u001b[33m",
  waiting: "\u001b[33m",
  denied: "\u001b[31m",
  failed: "\u001b[31m",
  expired: "\u001b[31m",
  dead: "\u001b[1;31m",
};
const plain = "\u001b[0m";

/** Renders a table that fits the terminal; without a terminal, nothing is cut. The first column is an id and is never cut. */
export function listTable({ heads, rows: given, statusAt }: TableOf, terminal: Terminal | null): string {
  const rows = [heads, ...given].map((row) => row.map(inert));
  const widths = heads.map((_, at) => Math.max(...rows.map((row) => widthOf(row[at] ?? ""))));
  if (terminal !== null) fit(widths, Math.max(0, statusAt), terminal.columns);
  return rows
    .map((row, n) => {
      const cells = row.flatMap((cell, at) => {
        const width = widths[at] ?? 0;
        if (width === 0) return [];
        const cut = cutTo(cell, width);
        const text = cut + " ".repeat(Math.max(0, width - widthOf(cut)));
        return [n > 0 && at === statusAt && terminal?.colours ? coloured(text, cell) : text];
      });
      return cells.join(gap).trimEnd();
    })
    .join("\n");
}

/** Formats an age, as short as possible. */
export function ageOf(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Reduces the widths from the last column on; a column that would be too narrow is dropped. */
function fit(widths: number[], lastWhole: number, columns: number): void {
  const total = () => widths.reduce((sum, width) => sum + (width === 0 ? 0 : width + gap.length), -gap.length);
  for (let at = widths.length - 1; at > lastWhole && total() > columns; at--) {
    const width = widths[at] ?? 0;
    const left = width - (total() - columns);
    widths[at] = left >= Math.min(width, cellMin) ? left : 0;
  }
}

function coloured(text: string, status: string): string {
  const colour = colours[status];
  return colour === undefined ? text : `${colour}${text}${plain}`;
}
