import { ageOf, listTable, type Terminal } from "../list-table.ts";
import { inert } from "../terminal-text.ts";

/** A run of an evaluation as the server answers it. */
export interface ShownEvalRun {
  readonly id: string;
  readonly tenant_id: string;
  readonly dataset_name: string;
  readonly candidate_manifest: string;
  readonly started_at: number;
  readonly status: "in_progress" | "completed" | "failed";
  readonly error: string;
  readonly total: number;
  readonly pass_count: number;
  readonly fail_count: number;
  readonly error_count: number;
  readonly pass_rate: number;
  readonly wall_ms: number;
  readonly stats: {
    readonly cost_usd: number;
    readonly judge_cost_usd: number;
    readonly judge_fallbacks: number;
  };
  readonly scores: readonly ShownScore[];
}

interface ShownScore {
  readonly thread_id: string;
  readonly item_id: string;
  readonly pass: boolean;
  readonly score: number;
  readonly rule: string;
  readonly reason?: string;
  readonly answer?: string;
  readonly error?: string;
  readonly duration_ms: number;
}

/** Returns the items of a run as a table, those that do not pass first, and a line with the sums. */
export function runReport(run: ShownEvalRun, terminal: Terminal | null): string {
  const failing = run.scores.filter(({ pass }) => !pass);
  const passing = run.scores.filter(({ pass }) => pass);
  const rows = [...failing, ...passing].map(({ item_id, pass, rule, reason, answer, error, duration_ms }) => {
    const why = error ?? reason ?? answer ?? "";
    return [item_id, error === undefined ? (pass ? "pass" : "fail") : "error", rule, `${duration_ms} ms`, why];
  });
  const table = listTable({ heads: ["ITEM", "RESULT", "RULE", "TIME", "REASON"], rows, statusAt: 1 }, terminal);
  return `${table}\n\n${sumsOf(run)}`;
}

/** Returns the sums of a run in one line. */
export function sumsOf(run: ShownEvalRun): string {
  const { pass_count, total, fail_count, error_count, wall_ms, stats, status, error } = run;
  const { cost_usd, judge_cost_usd, judge_fallbacks } = stats;
  const judge = judge_fallbacks === 0 ? "" : `, ${judge_fallbacks} without their judge`;
  const cost = `$${(cost_usd + judge_cost_usd).toFixed(4)}`;
  const counts = `${pass_count} of ${total} pass (${percent(run.pass_rate)}), ${fail_count} fail, ${error_count} errors${judge}`;
  const end = status === "failed" ? ` The run failed: ${inert(error)}.` : "";
  return `${inert(run.candidate_manifest)}: ${counts}; ${(wall_ms / 1000).toFixed(1)} s, ${cost}. Run ${run.id}.${end}`;
}

/** Returns runs as a table. */
export function runsTable(runs: readonly ShownEvalRun[], now: number, terminal: Terminal | null): string {
  const rows = runs.map(({ id, started_at, dataset_name, candidate_manifest, status, error, pass_rate, total }) => [
    id,
    ageOf(now - started_at),
    status,
    percent(pass_rate),
    String(total),
    dataset_name,
    candidate_manifest,
    error,
  ]);
  const heads = ["RUN", "AGE", "STATUS", "PASS", "ITEMS", "DATASET", "MANIFEST", "ERROR"];
  return listTable({ heads, rows, statusAt: 2 }, terminal);
}

/** Returns a share in percent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
