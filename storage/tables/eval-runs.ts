import { SvcError } from "../../bus/errors.ts";
import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, Store, TenantStore, WriteOp } from "../store/store.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  real,
  selectOne,
  table,
  text,
} from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import { writeStored } from "./stored-bytes.ts";

// Runs of evaluations. The batch that begins a run copies the items of its dataset into `eval_scores`, so that a later
// change of the dataset does not change the run. Each item is a durable run. Its score is written once: the statement
// requires that the item has none, and the same batch adds it to the sums of the run.

/** The request of an evaluation. */
export interface AskedEvaluation {
  /** The requester. The durable runs of the items have its scopes. */
  readonly owner: JobOwner;
  readonly cause: "request" | "schedule";
  readonly deterministic_judge: boolean;
  readonly use_llm_judge: boolean;
  /** Route of the judge; null for the one of the item or of the manifest. */
  readonly judge_model: string | null;
  /** True: items are scored by the answers in their rubrics, without a model. */
  readonly mock: boolean;
  /** Durable runs at once. */
  readonly concurrency: number;
  readonly allow_effects: boolean;
  /** Set for the continuous evaluation: a pass rate below it is a regression. */
  readonly min_score?: number;
  readonly webhooks?: readonly string[];
  /** Bytes that the run counts against the quota until its deletion; absent for a run that counts none. */
  readonly bytes?: number;
}

const sums = {
  duration_ms: integer,
  tokens_input: integer,
  tokens_output: integer,
  cost_usd: real,
  judge_cost_usd: real,
  tool_calls: integer,
  tool_errors: integer,
  judge_fallbacks: integer,
};

const runTable = table(
  "eval_runs",
  {
    id: text,
    /** Time of its start. */
    ts: integer,
    dataset_name: text,
    candidate_manifest: text,
    /** Version in the tenant's store; null for other manifests. */
    manifest_version: nullable(integer),
    /** Digest of the stored manifest. */
    body: text,
    asked: json<AskedEvaluation>(),
    /** Secret from which the ids of the durable runs are derived. */
    seed: text,
    status: oneOf("in_progress", "completed", "failed"),
    /** Reason of `failed`; empty otherwise. */
    error: text,
    finished_at: nullable(integer),
    total: integer,
    pass_count: integer,
    fail_count: integer,
    error_count: integer,
    ...sums,
  },
  ({ text }) => ({
    ...{ id: "run", ts: 5, dataset_name: "row", candidate_manifest: text, manifest_version: null, body: text },
    asked: {
      owner: { sub: text, scopes: [], scheme: "api_key", issuer: "" },
      cause: "request" as const,
      ...{ deterministic_judge: false, use_llm_judge: false, judge_model: null, mock: false },
      ...{ concurrency: 1, allow_effects: false },
    },
    ...{ seed: text, status: "in_progress" as const, error: "", finished_at: 5, total: 1, ...none },
  }),
);

/** A stored run of an evaluation. */
export type EvalRunRow = RowIn<typeof runTable>;

/** The sums over the scores of a run. */
export type EvalSums = { readonly [K in keyof typeof sums]: number };

const scoreTable = table("eval_scores", {
  run_id: text,
  position: integer,
  item_id: text,
  /** Empty after the score. */
  user_input: text,
  /** JSON of an object; empty after the score. */
  rubric: text,
  /** Null before the score. */
  outcome: nullable(oneOf("pass", "fail", "error")),
  /** JSON of the score; null before. */
  score: nullable(text),
});

/** An item of a run, and its score. */
export type EvalScoreRow = RowIn<typeof scoreTable>;

/** Outcome of an item. */
export type EvalOutcome = NonNullable<EvalScoreRow["outcome"]>;

/** An unfinished run. */
export interface OpenEvalRun {
  readonly tenant_id: string;
  readonly id: string;
}

const insertRun = insertInto(runTable);
const copyItems = tenantSql(
  "eval_scores_begin",
  `INSERT INTO eval_scores (tenant_id, ${scoreTable.columns})
   SELECT :tenant, ?, position, item_id, user_input, rubric, NULL, NULL FROM eval_items
   WHERE tenant_id = :tenant AND dataset = ?`,
);
const scoreItem = tenantSql(
  "eval_score_set",
  `UPDATE eval_scores SET outcome = ?, score = ?, user_input = '', rubric = ''
   WHERE tenant_id = :tenant AND run_id = ? AND position = ? AND outcome IS NULL`,
);
const sumNames = Object.keys(sums) as (keyof EvalSums)[];
const addScore = tenantSql(
  "eval_run_add",
  `UPDATE eval_runs SET pass_count = pass_count + ?, fail_count = fail_count + ?, error_count = error_count + ?,
     ${sumNames.map((name) => `${name} = ${name} + ?`).join(", ")}
   WHERE tenant_id = :tenant AND id = ? AND status = 'in_progress'`,
);
const endRun = tenantSql(
  "eval_run_end",
  "UPDATE eval_runs SET status = ?, error = ?, finished_at = ? WHERE tenant_id = :tenant AND id = ? AND status = 'in_progress'",
);
const endRestored = systemSql(
  "eval_runs_end_restored",
  "UPDATE eval_runs SET status = 'failed', error = 'restored', finished_at = :now WHERE status = 'in_progress'",
);
const dropOpen = tenantSql(
  "eval_scores_drop_open",
  "DELETE FROM eval_scores WHERE tenant_id = :tenant AND run_id = ? AND outcome IS NULL",
);
const selectOpenItems = tenantSql(
  "eval_scores_open",
  `SELECT ${scoreTable.columns} FROM eval_scores
   WHERE tenant_id = :tenant AND run_id = ? AND outcome IS NULL AND position > ? ORDER BY position LIMIT ?`,
);
const selectScores = tenantSql(
  "eval_scores_of_run",
  `SELECT position, item_id, outcome, score FROM eval_scores
   WHERE tenant_id = :tenant AND run_id = ? AND outcome IS NOT NULL AND position > ? ORDER BY position LIMIT ?`,
);
const selectOutcomes = tenantSql(
  "eval_outcomes_of_run",
  `SELECT item_id, outcome FROM eval_scores WHERE tenant_id = :tenant AND run_id = ? AND outcome IS NOT NULL ORDER BY position LIMIT ?`,
);
const selectOpenNth = tenantSql(
  "eval_runs_open_nth",
  "SELECT 1 AS is_there FROM eval_runs WHERE tenant_id = :tenant AND status = 'in_progress' ORDER BY id LIMIT 1 OFFSET ?",
);
const selectOpen = systemSql(
  "eval_runs_open",
  `SELECT tenant_id, id FROM eval_runs WHERE status = 'in_progress' AND (tenant_id, id) > (?, ?)
   ORDER BY tenant_id, id LIMIT ?`,
);
const selectOld = systemSql(
  "eval_runs_old",
  "SELECT tenant_id, id, asked FROM eval_runs WHERE finished_at <= ? ORDER BY finished_at, tenant_id, id LIMIT ?",
);
const deleteScores = tenantSql(
  "eval_scores_delete",
  "DELETE FROM eval_scores WHERE tenant_id = :tenant AND run_id = ?",
);
const deleteRun = tenantSql("eval_run_delete", "DELETE FROM eval_runs WHERE tenant_id = :tenant AND id = ?");

const none = {
  ...{ pass_count: 0, fail_count: 0, error_count: 0, duration_ms: 0, tokens_input: 0, tokens_output: 0 },
  ...{ cost_usd: 0, judge_cost_usd: 0, tool_calls: 0, tool_errors: 0, judge_fallbacks: 0 },
} as const;

/** Returns a run by its id. */
export const evalRunById = selectOne(runTable, ["id"]);

/** Returns a page of runs, newest first. Refuses with invalid_cursor. */
export const evalRunsPage = list(runTable, ["dataset_name"], {
  indexes: { dataset_name: "eval_runs_by_dataset" },
}).page;

/**
 * Begins a run over the items of a dataset, with `ops`. The run counts `asked.bytes` until its deletion; `limit` is the tenant's
 * storage quota, 0 for none. Refuses with storage_quota_exceeded, and with conflict if the dataset does not have `total` items any more.
 */
export async function beginEvalRun(
  store: TenantStore,
  run: Pick<
    EvalRunRow,
    "id" | "ts" | "dataset_name" | "candidate_manifest" | "manifest_version" | "body" | "asked" | "seed" | "total"
  >,
  { limit, ops }: { limit: number; ops: readonly WriteOp[] },
): Promise<void> {
  await writeStored(store, { kind: "eval_runs", bytes: run.asked.bytes ?? 0 }, limit, [
    ...ops,
    insertRun(store, { ...run, status: "in_progress", error: "", finished_at: null, ...none }),
    store.op(copyItems, [run.id, run.dataset_name], run.total),
  ]);
}

/** Scores an item and adds it to its run. The batch refuses with conflict if the item has a score or the run has ended. */
export function scoreItemOps(
  store: TenantStore,
  runId: string,
  position: number,
  { outcome, score, added }: { outcome: EvalOutcome; score: object; added: EvalSums },
): WriteOp[] {
  const counts = (["pass", "fail", "error"] as const).map((each) => (each === outcome ? 1 : 0));
  return [
    store.op(scoreItem, [outcome, JSON.stringify(score), runId, position], 1),
    store.op(addScore, [...counts, ...sumNames.map((name) => added[name]), runId], 1),
  ];
}

/** Ends a run and drops the items without a score. The batch refuses with conflict if the run has ended. */
export function endEvalRunOps(
  store: TenantStore,
  id: string,
  { status, error, now }: { status: "completed" | "failed"; error: string; now: number },
): WriteOp[] {
  return [store.op(endRun, [status, error, now, id], 1), store.op(dropOpen, [id])];
}

/** Ends the unfinished runs of a restored backup, which may have finished after it was made. */
export function endRestoredEvalRunsOp(store: Scope): WriteOp {
  return store.op(endRestored, []);
}

/** Returns the items of a run without a score after a position, in pages. */
export async function openItems(
  store: TenantStore,
  runId: string,
  after: number,
  limit: number,
): Promise<EvalScoreRow[]> {
  return (await store.read(selectOpenItems, runId, after, limit)).map(scoreTable.decode);
}

/** The score of an item. */
export interface StoredScore {
  readonly position: number;
  readonly item_id: string;
  readonly outcome: EvalOutcome;
  /** JSON. */
  readonly score: string;
}

/** Returns the scores of a run after a position, in pages. */
export async function scoresPage(
  store: TenantStore,
  runId: string,
  after: number,
  limit: number,
): Promise<StoredScore[]> {
  return (await store.read(selectScores, runId, after, limit)) as unknown as StoredScore[];
}

/** Returns the outcomes of up to `limit` items of a run, by item id. */
export async function outcomesOfRun(
  store: TenantStore,
  runId: string,
  limit: number,
): Promise<ReadonlyMap<string, EvalOutcome>> {
  const rows = await store.read(selectOutcomes, runId, limit);
  return new Map(rows.map(({ item_id, outcome }) => [item_id as string, outcome as EvalOutcome]));
}

/** True if at least `count` runs of the tenant are unfinished. */
export async function hasOpenEvalRuns(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectOpenNth, count - 1)).length > 0;
}

/** Returns the unfinished runs of all tenants, in pages. */
export async function openEvalRuns(store: Scope, after: OpenEvalRun, limit: number): Promise<OpenEvalRun[]> {
  return (await store.read(selectOpen, after.tenant_id, after.id, limit)) as unknown as OpenEvalRun[];
}

/** Deletes up to `limit` runs that finished at or before `until`, with their scores and their bytes. Returns their number. */
export async function deleteOldEvalRuns(store: Store, until: number, limit: number): Promise<number> {
  const old = await store.system.read(selectOld, until, limit);
  let deleted = 0;
  for (const row of old) {
    const { tenant_id, id, asked } = row as { tenant_id: string; id: string; asked: string };
    const tenant = store.tenant(tenant_id);
    const { bytes = 0 } = JSON.parse(asked) as AskedEvaluation;
    try {
      await writeStored(tenant, { kind: "eval_runs", bytes: bytes === 0 ? 0 : -bytes }, 0, [
        tenant.op(deleteRun, [id], 1),
        tenant.op(deleteScores, [id]),
      ]);
      deleted++;
    } catch (error) {
      // Another process has deleted it.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
  return deleted;
}
