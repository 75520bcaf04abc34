import { SvcError } from "../../bus/errors.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
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
  upsertInto,
} from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import type { SkillVersionId } from "./skills.ts";
import { writeStored } from "./stored-bytes.ts";

// Evaluations of versions of skills. Each is a job: a worker claims it, stores the result of each scenario, and ends it.

/** A request that the skill should help with. */
export interface SkillScenario {
  readonly name: string;
  readonly prompt: string;
  readonly criteria: string;
}

/** The scores of a scenario, from 0 to 100, with and without the skill. */
export interface ScenarioResult {
  readonly name: string;
  readonly baseline_score: number;
  readonly with_skill_score: number;
  readonly uplift: number;
  readonly baseline_reason: string;
  readonly with_skill_reason: string;
}

const evalTable = table(
  "skill_evals",
  {
    id: text,
    ts: integer,
    library: text,
    name: text,
    version: text,
    status: oneOf("queued", "running", "succeeded", "failed"),
    /** Null before the worker has chosen them. */
    scenario_source: nullable(oneOf("bundle", "generated", "default")),
    scenarios: json<readonly SkillScenario[]>(),
    results: json<readonly ScenarioResult[]>(),
    baseline_score: nullable(real),
    with_skill_score: nullable(real),
    uplift: nullable(real),
    model: nullable(text),
    judge_model: nullable(text),
    error: nullable(text),
    /** Why a success does not count for a publication, or a remark; empty for none. */
    gate_note: text,
    /** 1 if a publication may rest on it. */
    counts: integer,
    asked: json<JobOwner>(),
    started_at: nullable(integer),
    finished_at: nullable(integer),
    claimed_by: nullable(text),
    claimed_at: nullable(integer),
    heartbeat_at: nullable(integer),
    attempts: integer,
    due_at: nullable(integer),
    bytes: integer,
  },
  ({ text: error }) => ({
    ...({
      id: "row",
      ts: 5,
      library: "row",
      name: "row",
      version: "row",
      status: "queued",
      scenario_source: null,
    } as const),
    ...{ scenarios: [{ name: error, prompt: error, criteria: error }], results: [], baseline_score: 5 },
    ...{ with_skill_score: 5, uplift: 5, model: error, judge_model: error, error, gate_note: error, counts: 1 },
    ...{ asked: { sub: error, scopes: [], scheme: error, issuer: error }, started_at: 5, finished_at: null },
    ...{ claimed_by: null, claimed_at: null, heartbeat_at: null, attempts: 0, due_at: 5, bytes: 5 },
  }),
);

/** An evaluation of a version. */
export type SkillEvalRow = RowIn<typeof evalTable>;

const scenarioTable = table(
  "skill_scenarios",
  {
    library: text,
    name: text,
    source: oneOf("bundle", "generated"),
    /** 0 if an agent or an import brought them. */
    is_trusted: integer,
    scenarios: json<readonly SkillScenario[]>(),
  },
  ({ text: prompt }) => ({
    ...({ library: "row", name: "row", source: "bundle", is_trusted: 1 } as const),
    scenarios: [{ name: prompt, prompt, criteria: prompt }],
  }),
);

/** Inserts an evaluation that waits. The batch refuses with conflict if the version has another one. */
export const insertSkillEvalOp = insertInto(evalTable);
/** Returns an evaluation by its id. */
export const storedSkillEval = selectOne(evalTable, ["id"]);
/** Returns the scenarios of a skill. */
export const storedScenarios = selectOne(scenarioTable, ["library", "name"]);
/** Sets the scenarios of a skill. */
export const setScenariosOp = upsertInto(scenarioTable, ["library", "name"]);
/** Decodes a row of another statement. */
export const decodeSkillEval = evalTable.decode;
/** The columns, in the form of a SELECT list. */
export const skillEvalColumns = evalTable.columns;

/** Max claims of a job. The claim that finds as many ends it, and is no attempt. */
export const skillJobAttemptsMax = 3;
/** SQL of the attempts at the end of a job. */
export const knownAttempts = `CASE WHEN attempts > ${skillJobAttemptsMax} THEN ${skillJobAttemptsMax} ELSE attempts END`;

const claimed = "tenant_id = :tenant AND id = ? AND claimed_by = ? AND attempts = ?";
const setProgress = tenantSql(
  "skill_eval_progress",
  `UPDATE skill_evals SET scenario_source = ?, scenarios = ?, results = ?, model = ?, judge_model = ?, gate_note = ?, counts = ?
   WHERE ${claimed}`,
);
const endEval = tenantSql(
  "skill_eval_end",
  `UPDATE skill_evals SET status = ?, baseline_score = ?, with_skill_score = ?, uplift = ?, error = ?, finished_at = ?, counts = ?,
     bytes = ?, attempts = ${knownAttempts}, due_at = NULL, claimed_by = NULL
   WHERE ${claimed}`,
);
const selectOfName = tenantSql(
  "skill_evals_of_name",
  `SELECT ${evalTable.columns} FROM skill_evals INDEXED BY skill_evals_by_name
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND (ts, id) < (?, ?) ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectOfVersion = tenantSql(
  "skill_evals_of_version",
  `SELECT ${evalTable.columns} FROM skill_evals INDEXED BY skill_evals_by_version
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND (ts, id) < (?, ?) ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectForGate = tenantSql(
  "skill_eval_for_gate",
  `SELECT uplift FROM skill_evals INDEXED BY skill_evals_by_version
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND status = 'succeeded' AND counts = 1
   ORDER BY ts DESC, id DESC LIMIT 1`,
);
const selectOpen = tenantSql(
  "skill_eval_open",
  `SELECT 1 AS is_there FROM skill_evals INDEXED BY skill_evals_open
   WHERE tenant_id = :tenant AND library = ? AND name = ? AND version = ? AND due_at IS NOT NULL`,
);
const selectOld = systemSql(
  "skill_evals_old",
  "SELECT tenant_id, id, bytes FROM skill_evals WHERE finished_at <= ? ORDER BY finished_at, tenant_id, id LIMIT ?",
);
const deleteEval = tenantSql("skill_eval_delete", "DELETE FROM skill_evals WHERE tenant_id = :tenant AND id = ?");

/** Identifies a claim of a job. */
export type JobClaim = Pick<SkillEvalRow, "id" | "claimed_by" | "attempts">;

/** Stores how far an evaluation is. Refuses with conflict if the claim is lost. */
export function skillEvalProgressOp(store: TenantStore, row: SkillEvalRow): WriteOp {
  const { scenario_source, scenarios, results, model, judge_model, gate_note, counts, id, claimed_by, attempts } = row;
  const values = [scenario_source, JSON.stringify(scenarios), JSON.stringify(results), model, judge_model];
  return store.op(setProgress, [...values, gate_note, counts, id, claimed_by, attempts], 1);
}

/** Ends an evaluation. Refuses with conflict if the claim is lost. */
export function endSkillEvalOp(store: TenantStore, row: SkillEvalRow): WriteOp {
  const { status, baseline_score, with_skill_score, uplift, error, finished_at, counts, bytes } = row;
  const values = [status, baseline_score, with_skill_score, uplift, error, finished_at, counts, bytes];
  return store.op(endEval, [...values, row.id, row.claimed_by, row.attempts], 1);
}

/** Returns evaluations of a skill before a position, the newest first; of one version, or of all. */
export async function skillEvals(
  store: TenantStore,
  { library, name, version }: Pick<SkillVersionId, "library" | "name"> & { readonly version: string | null },
  before: readonly [ts: number, id: string],
  limit: number,
): Promise<SkillEvalRow[]> {
  const rows =
    version === null
      ? await store.read(selectOfName, library, name, ...before, limit)
      : await store.read(selectOfVersion, library, name, version, ...before, limit);
  return rows.map(evalTable.decode);
}

/** Returns the improvement that the newest evaluation that counts has shown; undefined if there is none. */
export async function upliftForGate(
  store: TenantStore,
  { library, name, version }: SkillVersionId,
): Promise<number | undefined> {
  const [row] = await store.read(selectForGate, library, name, version);
  return row === undefined ? undefined : Number(row.uplift);
}

/** True if the version has an evaluation that has not ended. */
export async function hasOpenEval(store: TenantStore, { library, name, version }: SkillVersionId): Promise<boolean> {
  return (await store.read(selectOpen, library, name, version)).length > 0;
}

/** Deletes up to `limit` evaluations that finished at or before `until`, with their bytes. Returns their number. */
export async function deleteOldSkillEvals(store: Store, until: number, limit: number): Promise<number> {
  const old = await store.system.read(selectOld, until, limit);
  for (const row of old) {
    const tenant = store.tenant(row.tenant_id as string);
    const change = { kind: "skills", bytes: -Number(row.bytes) } as const;
    try {
      await writeStored(tenant, change, 0, [tenant.op(deleteEval, [row.id as string], 1)]);
    } catch (error) {
      // Another process has deleted it.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
  return old.length;
}
