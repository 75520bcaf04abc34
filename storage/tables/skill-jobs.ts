import { type Row, systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, table } from "../store/table.ts";
import { type Gone, othersThan, ownerIsGone } from "./hosts.ts";
import { decodeSkillEval, type JobClaim, knownAttempts, type SkillEvalRow, skillEvalColumns } from "./skill-evals.ts";
import { decodeFeedback, feedbackColumns, type SkillFeedbackRow } from "./skill-feedback.ts";

// Jobs of skills: evaluations, and rewrites from accepted feedback. A sweep claims some of each kind for a time that heartbeats
// extend; no sweep begins while another one has a claim. A claim counts as an attempt, and the batch of a worker that has lost its
// claim is refused. Times are those of the store's clock.

const dayTable = table("skill_job_days", { day: integer, jobs: integer }, () => ({ day: 5, jobs: 5 }));

/** A kind of job. */
export type SkillJobKind = "eval" | "improve";

/** A claimed job of a tenant. */
export type ClaimedSkillJob =
  | { readonly kind: "eval"; readonly tenant_id: string; readonly row: SkillEvalRow }
  | { readonly kind: "improve"; readonly tenant_id: string; readonly row: SkillFeedbackRow };

/** Days of UTC. */
const dayMs = 86_400_000;

const open = tenantSql(
  "skill_job_days_insert",
  `INSERT INTO skill_job_days (tenant_id, ${dayTable.columns}) VALUES (:tenant, ?, ?) ON CONFLICT (tenant_id) DO NOTHING`,
);
const begin = tenantSql(
  "skill_job_count",
  `UPDATE skill_job_days SET day = ?, jobs = CASE WHEN day = ? THEN jobs + 1 ELSE 1 END
   WHERE tenant_id = :tenant AND (day <> ? OR jobs < ?) AND ? >
     (SELECT COUNT(*) FROM skill_evals WHERE tenant_id = :tenant AND due_at IS NOT NULL)
     + (SELECT COUNT(*) FROM skill_feedback WHERE tenant_id = :tenant AND due_at IS NOT NULL)`,
);
const lock = tenantSql("skill_job_lock", "UPDATE skill_job_days SET jobs = jobs WHERE tenant_id = :tenant");
const openSweeps = systemSql(
  "skill_sweeps_open",
  "INSERT INTO counters (name, value) VALUES ('skill_sweeps', 0) ON CONFLICT (name) DO NOTHING",
);
const countSweep = systemSql("skill_sweeps_count", "UPDATE counters SET value = value + 1 WHERE name = 'skill_sweeps'");

// Tenants take turns: the oldest job of each comes first, then the second of each.
const isFree = (name: string) =>
  `NOT EXISTS (SELECT 1 FROM ${name} busy WHERE busy.due_at > :now AND busy.claimed_by IS NOT NULL AND busy.claimed_by <> ?)`;
const claimOf = (name: string, columns: string, set: string) =>
  systemSql(
    `${name}_claim`,
    `UPDATE ${name} SET attempts = attempts + 1, claimed_by = ?, claimed_at = :now, heartbeat_at = :now, due_at = :now + ?${set}
     WHERE due_at <= :now AND ${isFree("skill_evals")} AND ${isFree("skill_feedback")} AND (tenant_id, id) IN
       (SELECT found.tenant_id, found.id FROM
         (SELECT tenant_id, id, ts, ROW_NUMBER() OVER (PARTITION BY tenant_id ORDER BY ts, id) AS turn
          FROM ${name} WHERE due_at <= :now) found
        ORDER BY found.turn, found.ts, found.tenant_id, found.id LIMIT ?)
     RETURNING tenant_id, ${columns}`,
  );
const beatOf = (name: string) =>
  tenantSql(
    `${name}_beat`,
    `UPDATE ${name} SET heartbeat_at = :now, due_at = :now + ?
     WHERE tenant_id = :tenant AND id = ? AND claimed_by = ? AND attempts = ?`,
  );
const putOffOf = (name: string, set: string) =>
  tenantSql(
    `${name}_put_off`,
    `UPDATE ${name} SET claimed_by = NULL, due_at = :now + ?, attempts = attempts - ?${set}
     WHERE tenant_id = :tenant AND id = ? AND claimed_by = ? AND attempts = ?`,
  );
const releaseOf = (name: string, set: string) => ({
  ofHosts: systemSql(
    `${name}_release_of_lapsed_hosts`,
    `UPDATE ${name} SET claimed_by = NULL, due_at = :now${set} WHERE claimed_by IS NOT NULL AND ${ownerIsGone("claimed_by")}`,
  ),
  ofWorker: systemSql(
    `${name}_release_of_worker`,
    `UPDATE ${name} SET claimed_by = NULL, due_at = :now${set} WHERE claimed_by IS NOT NULL AND substr(claimed_by, 1, ?) = ?`,
  ),
});

const waits = ", status = 'queued'";
const statements = {
  eval: {
    claim: claimOf("skill_evals", skillEvalColumns, ", status = 'running', started_at = COALESCE(started_at, :now)"),
    beat: beatOf("skill_evals"),
    putOff: putOffOf("skill_evals", waits),
    release: releaseOf("skill_evals", waits),
  },
  improve: {
    claim: claimOf("skill_feedback", feedbackColumns, ""),
    beat: beatOf("skill_feedback"),
    putOff: putOffOf("skill_feedback", ""),
    release: releaseOf("skill_feedback", ""),
  },
} as const;

const endImprove = tenantSql(
  "skill_feedback_end",
  `UPDATE skill_feedback SET status = ?, result_version = ?, model = ?, error = ?, attempts = ${knownAttempts}, due_at = NULL,
     claimed_by = NULL
   WHERE tenant_id = :tenant AND id = ? AND claimed_by = ? AND attempts = ?`,
);
const endRestored = [
  systemSql(
    "skill_evals_end_restored",
    `UPDATE skill_evals SET status = 'failed', error = 'restored', finished_at = :now, due_at = NULL, claimed_by = NULL
     WHERE due_at IS NOT NULL`,
  ),
  systemSql(
    "skill_feedback_end_restored",
    `UPDATE skill_feedback SET status = 'failed', error = 'restored', due_at = NULL, claimed_by = NULL WHERE due_at IS NOT NULL`,
  ),
];

/**
 * Counts a new job of the tenant. Its batch refuses with conflict if as many as `queuedMax` have not ended, or as many as `dailyMax`
 * began today.
 */
export function countSkillJobOps(
  store: TenantStore,
  now: number,
  { queuedMax, dailyMax }: { readonly queuedMax: number; readonly dailyMax: number },
): WriteOp[] {
  const day = Math.floor(now / dayMs);
  // The lock makes concurrent batches of a tenant wait for each other.
  return [store.op(open, [0, 0]), store.op(lock, [], 1), store.op(begin, [day, day, day, dailyMax, queuedMax], 1)];
}

/**
 * Claims up to `limit` jobs of each kind for `forMs` milliseconds; none while another sweep has claims. `owner` names the worker
 * and the sweep, and begins with the host.
 */
export async function claimSkillJobs(
  store: Scope,
  { owner, forMs, limit }: { readonly owner: string; readonly forMs: number; readonly limit: number },
): Promise<ClaimedSkillJob[]> {
  const claim = (kind: SkillJobKind) => store.op(statements[kind].claim, [owner, forMs, owner, owner, limit]);
  // Counting makes concurrent sweeps wait for each other.
  const batch = [store.op(openSweeps, []), store.op(countSweep, [], 1), claim("eval"), claim("improve")];
  const [evals = [], improves = []] = await store.write(batch);
  const tenantOf = (row: Row) => row.tenant_id as string;
  return [
    ...evals.map((row) => ({ kind: "eval", tenant_id: tenantOf(row), row: decodeSkillEval(row) }) as const),
    ...improves.map((row) => ({ kind: "improve", tenant_id: tenantOf(row), row: decodeFeedback(row) }) as const),
  ];
}

/** Extends a claim. Refuses with conflict if it is lost. */
export function beatSkillJobOp(store: TenantStore, kind: SkillJobKind, claim: JobClaim, forMs: number): WriteOp {
  return store.op(statements[kind].beat, [forMs, claim.id, claim.claimed_by, claim.attempts], 1);
}

/** Gives a job back for `ms` milliseconds. The claim counts as an attempt if `counts`. No effect if the claim is lost. */
export function putOffSkillJobOp(
  store: TenantStore,
  kind: SkillJobKind,
  { id, claimed_by, attempts }: JobClaim,
  { ms, counts }: { readonly ms: number; readonly counts: boolean },
): WriteOp {
  return store.op(statements[kind].putOff, [ms, counts ? 0 : 1, id, claimed_by, attempts]);
}

/** Ends a rewrite. Refuses with conflict if the claim is lost. */
export function endImproveOp(store: TenantStore, row: SkillFeedbackRow): WriteOp {
  const { status, result_version, model, error, id, claimed_by, attempts } = row;
  return store.op(endImprove, [status, result_version, model, error, id, claimed_by, attempts], 1);
}

/** Releases the claims of a dead host or worker, so that its jobs are due at once. */
export async function releaseSkillJobs(store: Scope, gone: Gone): Promise<void> {
  const releases = [statements.eval.release, statements.improve.release];
  await store.write(
    releases.map(({ ofHosts, ofWorker }) => {
      if ("hostsBut" in gone) return store.op(ofHosts, othersThan(gone.hostsBut));
      const prefix = `${gone.worker}:`;
      return store.op(ofWorker, [prefix.length, prefix]);
    }),
  );
}

/** Ends the jobs of a restored backup, which may have ended after it was made. */
export function endRestoredSkillJobsOps(store: Scope): WriteOp[] {
  return endRestored.map((statement) => store.op(statement, []));
}
