import { dashedId } from "../../bus/dashed-id.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { JobOwner } from "../../storage/tables/jobs.ts";
import { hasOpenEval, insertSkillEvalOp, type SkillEvalRow } from "../../storage/tables/skill-evals.ts";
import { countSkillJobOps } from "../../storage/tables/skill-jobs.ts";
import { type SkillVersionId, skillVersion } from "../../storage/tables/skills.ts";
import { writeStored } from "../../storage/tables/stored-bytes.ts";
import { unlessChanged } from "../../storage/tables/unless-changed.ts";
import { type AuditEvent, auditOp } from "../audit.ts";
import type { SecretMask } from "../secret-mask.ts";
import type { Settings } from "../settings/settings.ts";

/** The limits of the jobs of a tenant. */
export type SkillJobLimits = Pick<Settings, "tenantStoredBytes" | "skillJobsMaxQueued" | "skillJobsDailyLimit">;

/** Services of evaluations. */
export interface SkillEvalDeps {
  readonly env: Env;
  readonly mask: SecretMask;
  readonly settings: SkillJobLimits;
}

/** Bytes that an evaluation counts before its end. */
const rowBytes = 1_024;

/** Queues an evaluation of a version. Refuses with not_found, eval_in_progress and skill_jobs_cap_reached. */
export async function queueEvaluation(
  store: TenantStore,
  { library, name, version }: SkillVersionId,
  asked: JobOwner,
  deps: SkillEvalDeps,
): Promise<SkillEvalRow> {
  const { env, settings } = deps;
  const id = { library, name, version };
  if ((await skillVersion(store, id)) === undefined) throw new SvcError("not_found");
  if (await hasOpenEval(store, id)) throw new SvcError("eval_in_progress");
  const now = env.now();
  const row: SkillEvalRow = {
    ...({ id: dashedId(env), ts: now, ...id, status: "queued", scenario_source: null, scenarios: [] } as const),
    ...{ results: [], baseline_score: null, with_skill_score: null, uplift: null, model: null, judge_model: null },
    ...{ error: null, gate_note: "", counts: 0, asked, started_at: null, finished_at: null, claimed_by: null },
    ...{ claimed_at: null, heartbeat_at: null, attempts: 0, due_at: 0, bytes: rowBytes },
  };
  const ops = [
    ...countSkillJobOps(store, now, limitsOf(settings)),
    insertSkillEvalOp(store, row),
    evalAuditOp(store, row, "skill_eval_queued", deps),
  ];
  const change = { kind: "skills", bytes: row.bytes } as const;
  if (await unlessChanged(() => writeStored(store, change, settings.tenantStoredBytes, ops))) return row;
  throw new SvcError((await hasOpenEval(store, id)) ? "eval_in_progress" : "skill_jobs_cap_reached");
}

/** Returns the limits on the number of jobs. */
export function limitsOf({ skillJobsMaxQueued, skillJobsDailyLimit }: SkillJobLimits) {
  return { queuedMax: skillJobsMaxQueued, dailyMax: skillJobsDailyLimit };
}

/** Returns the audit row of a move of an evaluation. */
export function evalAuditOp(
  store: TenantStore,
  { id, library, name, version, asked, status, uplift, error }: SkillEvalRow,
  event_type: "skill_eval_queued" | "skill_eval_finished",
  deps: Pick<SkillEvalDeps, "env" | "mask">,
) {
  const payload = { skill: name, version, library: library || "org", eval_id: id };
  const event: AuditEvent = {
    ...({
      event_type,
      status: status === "failed" ? "error" : "ok",
      manifest_id: "",
      principal_subj: asked.sub,
    } as const),
    payload: event_type === "skill_eval_queued" ? payload : { ...payload, outcome: status, uplift, error },
  };
  return auditOp(store, deps, event);
}

/** Returns the bytes that an evaluation counts. */
export function evalBytes({ scenarios, results }: SkillEvalRow): number {
  return rowBytes + Buffer.byteLength(JSON.stringify(scenarios)) + Buffer.byteLength(JSON.stringify(results));
}

/** Returns the record of an evaluation. */
export function skillEvalView(row: SkillEvalRow) {
  const { id, name, version, status, scenario_source, scenarios, results, baseline_score, with_skill_score } = row;
  const { uplift, model, judge_model, error, asked, ts, started_at, heartbeat_at, attempts, finished_at } = row;
  return {
    ...{ id, name, version, status, scenario_source, scenarios, baseline_score, with_skill_score, uplift, results },
    ...{ model, judge_model, error, requested_by: asked.sub, created_at: ts, started_at, heartbeat_at, attempts },
    ...{ finished_at, counts_for_gate: status === "succeeded" && row.counts === 1, gate_note: row.gate_note || null },
  };
}
