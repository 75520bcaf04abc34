/** A terminal that a command writes to. */
export interface Terminal {
  readonly columns: number;
  /** Whether it may be written to in colours. */
  readonly colours: boolean;
}

/** What a table shows of a run, as GET /runs has it. */
export interface ShownRun {
  readonly run_id: string;
  readonly status: string;
  readonly manifest_id: string;
  readonly thread_id: string | null;
  readonly accepted_at: number;
  readonly attempts: number;
  readonly error: string | null;
  readonly requeued_as: string | null;
}

const heads = ["RUN", "STATUS", "AGE", "TRIES", "MANIFEST", "THREAD", "ERROR"];
const statusAt = heads.indexOf("STATUS");
const gap = "  ";
/** A column is cut to this before those behind it are left out. */
const cellMin = 8;
const colours: Readonly<Record<string, string>> = {
  completed: "\u001b[32m",
  running: "\u001b[36m",
  waiting: "\u001b[33m",
  failed: "\u001b[31m",
  expired: "\u001b[31m",
  dead: "\u001b[1;31m",
};
const plain = "\u001b[0m";

/** Runs as lines: none longer than the terminal is wide, and whole where they go elsewhere. */
export function runTable(runs: readonly ShownRun[], now: number, terminal: Terminal | null): string {
  const rows = [heads, ...runs.map((run) => cellsOf(run, now))];
  const widths = heads.map((_, at) => Math.max(...rows.map((row) => (row[at] ?? "").length)));
  if (terminal !== null) fit(widths, terminal.columns);
  return rows
    .map((row, n) => {
      const cells = row.flatMap((cell, at) => {
        const width = widths[at] ?? 0;
        if (width === 0) return [];
        const text = cut(cell, width).padEnd(width);
        return [n > 0 && at === statusAt && terminal?.colours ? coloured(text, cell) : text];
      });
      return cells.join(gap).trimEnd();
    })
    .join("\n");
}

/** Text of others, which a terminal must not take for orders. */
export function inert(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").trim();
}

/** How long ago something was, as short as can be read. */
function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

function cellsOf(run: ShownRun, now: number): string[] {
  const { run_id, status, manifest_id, thread_id, accepted_at, attempts, error, requeued_as } = run;
  const why = requeued_as === null ? (error ?? "") : `requeued as ${requeued_as}`;
  const cells = [run_id, status, age(now - accepted_at), String(attempts), manifest_id, thread_id ?? "-", why];
  return cells.map(inert);
}

/** Cuts the last columns first, and leaves them out where nothing of them would be left. The first is an id and stays whole. */
function fit(widths: number[], columns: number): void {
  const total = () => widths.reduce((sum, width) => sum + (width === 0 ? 0 : width + gap.length), -gap.length);
  for (let at = widths.length - 1; at > statusAt && total() > columns; at--) {
    const width = widths[at] ?? 0;
    const left = width - (total() - columns);
    widths[at] = left >= Math.min(width, cellMin) ? left : 0;
  }
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

function coloured(text: string, status: string): string {
  const colour = colours[status];
  return colour === undefined ? text : `${colour}${text}${plain}`;
}
