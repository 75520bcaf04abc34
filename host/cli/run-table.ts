import { ageOf, listTable, type Terminal } from "./list-table.ts";

/** The fields of GET /runs that a table shows. */
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

/** Renders runs as a table that fits the terminal; without a terminal, nothing is cut. */
export function runTable(runs: readonly ShownRun[], now: number, terminal: Terminal | null): string {
  const heads = ["RUN", "STATUS", "AGE", "TRIES", "MANIFEST", "THREAD", "ERROR"];
  return listTable({ heads, statusAt: 1, rows: runs.map((run) => cellsOf(run, now)) }, terminal);
}

function cellsOf(run: ShownRun, now: number): string[] {
  const { run_id, status, manifest_id, thread_id, accepted_at, attempts, error, requeued_as } = run;
  const why = requeued_as === null ? (error ?? "") : `requeued as ${requeued_as}`;
  return [run_id, status, ageOf(now - accepted_at), String(attempts), manifest_id, thread_id ?? "-", why];
}
