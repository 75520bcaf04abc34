import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { JobOwner } from "./jobs.ts";
import { workflowRunById } from "./workflow-runs.ts";

// Runs of jobs. A row is inserted in the batch in which a job fires, so that a firing survives a crash. It holds the
// request of the run, and later its outcome. A job has at most one open run. The rows in `runs` and `fibers` hold the
// state of the run itself.

/** The request of a job's run, as the job was when it fired. */
export interface AskedOfJob {
  readonly manifest_id: string;
  readonly prompt: string;
  readonly owner: JobOwner;
  /** The workflow that the run starts; absent for a run of an agent. */
  readonly workflow?: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

const jobRunTable = table("job_runs", {
  run_id: text,
  job_name: text,
  /** Suffix of its thread. */
  suffix: text,
  caused_by: oneOf("manual", "schedule"),
  /** The subject that started it manually, or `cron`. */
  requested_by: text,
  asked: json<AskedOfJob>(),
  status: oneOf("running", "ok", "error"),
  started_at: integer,
  /** Time at which the run was found in the store; null before. */
  accepted_at: nullable(integer),
  finished_at: nullable(integer),
  /** Final status of the run, or `refused`; empty before the end. */
  outcome: text,
  error: text,
  answer: nullable(text),
});

/** A stored run of a job. */
export type JobRunRow = RowIn<typeof jobRunTable>;

/** Outcome of a run. */
export type JobRunEnd = Pick<JobRunRow, "status" | "outcome" | "error" | "answer">;

/** Current state of a run. */
export interface JobRunStanding {
  readonly status: string;
  readonly ended_at: number | null;
  /** Time at which the run is due to resume. */
  readonly wake_at: number | null;
  readonly final: string | null;
  readonly error: string | null;
}

/** Max stored runs of a job, and max size of a page of them. */
export const runsKept = 200;

const { columns } = jobRunTable;
const insertRun = insertInto(jobRunTable);
const acceptRun = tenantSql(
  "job_run_accept",
  "UPDATE job_runs SET accepted_at = :now WHERE tenant_id = :tenant AND run_id = ? AND accepted_at IS NULL",
);
const endRun = tenantSql(
  "job_run_end",
  `UPDATE job_runs SET status = ?, outcome = ?, error = ?, answer = ?, finished_at = :now
   WHERE tenant_id = :tenant AND run_id = ? AND status = 'running'`,
);
const dropOld = tenantSql(
  "job_runs_drop_old",
  `DELETE FROM job_runs WHERE tenant_id = :tenant AND job_name = ? AND status <> 'running' AND started_at <
     (SELECT started_at FROM job_runs WHERE tenant_id = :tenant AND job_name = ? ORDER BY started_at DESC LIMIT 1 OFFSET ?)`,
);
const deleteOfJob = tenantSql("job_runs_delete", "DELETE FROM job_runs WHERE tenant_id = :tenant AND job_name = ?");
const deleteOfThread = tenantSql(
  "job_runs_delete_of_thread",
  "DELETE FROM job_runs WHERE tenant_id = :tenant AND suffix = ? AND status <> 'running'",
);
const selectNewest = tenantSql(
  "job_runs_newest",
  `SELECT ${columns} FROM job_runs WHERE tenant_id = :tenant AND job_name = ? ORDER BY started_at DESC, run_id DESC LIMIT ?`,
);
const selectOpen = tenantSql(
  "job_runs_of_tenant_open",
  `SELECT ${columns} FROM job_runs WHERE tenant_id = :tenant AND status = 'running' AND job_name > ? ORDER BY job_name LIMIT ?`,
);
const selectOpenOfJob = tenantSql(
  "job_run_open",
  `SELECT ${columns} FROM job_runs WHERE tenant_id = :tenant AND job_name = ? AND status = 'running'`,
);
const selectStanding = tenantSql(
  "job_run_standing",
  `SELECT r.status, f.ended_at, f.wake_at, f.final, f.error FROM fibers f JOIN runs r ON r.run_key = f.run_key
   WHERE f.tenant_id = :tenant AND f.run_id = ? AND r.tenant_id = f.tenant_id`,
);
const selectTenants = systemSql(
  "job_runs_open_tenants",
  "SELECT DISTINCT tenant_id FROM job_runs WHERE status = 'running' AND tenant_id > ? ORDER BY tenant_id LIMIT ?",
);

/** Returns a run of a job by its id. */
export const jobRunById = selectOne(jobRunTable, ["run_id"]);

/**
 * Inserts the run of a job that fires, and deletes its oldest runs. The batch refuses with conflict if the job has an
 * open run.
 */
export function beginJobRunOps(
  store: TenantStore,
  run: Omit<JobRunRow, "status" | "accepted_at" | "finished_at" | "outcome" | "error" | "answer">,
): WriteOp[] {
  const open = {
    status: "running",
    accepted_at: null,
    finished_at: null,
    outcome: "",
    error: "",
    answer: null,
  } as const;
  return [insertRun(store, { ...run, ...open }), store.op(dropOld, [run.job_name, run.job_name, runsKept - 1])];
}

/** Records that the run was accepted. */
export function acceptJobRunOp(store: TenantStore, runId: string): WriteOp {
  return store.op(acceptRun, [runId]);
}

/** Ends a run. Refuses with conflict if it has ended. */
export function endJobRunOp(store: TenantStore, runId: string, { status, outcome, error, answer }: JobRunEnd): WriteOp {
  return store.op(endRun, [status, outcome, error, answer, runId], 1);
}

/** Deletes the run rows of a job. */
export function deleteJobRunsOp(store: TenantStore, name: string): WriteOp {
  return store.op(deleteOfJob, [name]);
}

/** Deletes the job-run rows of a thread, except an open one. */
export function deleteJobRunsOfThreadOp(store: TenantStore, suffix: string): WriteOp {
  return store.op(deleteOfThread, [suffix]);
}

/** Returns the newest runs of a job. */
export async function jobRunsOf(store: TenantStore, name: string, limit: number): Promise<JobRunRow[]> {
  return (await store.read(selectNewest, name, limit)).map(jobRunTable.decode);
}

/** Returns the open runs of the tenant's jobs, in pages by job name. */
export async function openJobRuns(store: TenantStore, after: string, limit: number): Promise<JobRunRow[]> {
  return (await store.read(selectOpen, after, limit)).map(jobRunTable.decode);
}

/** Returns the open run of a job, if any. */
export async function openJobRun(store: TenantStore, name: string): Promise<JobRunRow | undefined> {
  const [row] = await store.read(selectOpenOfJob, name);
  return row && jobRunTable.decode(row);
}

/** Returns the state of a run; undefined if it does not exist. */
export async function jobRunStanding(
  store: TenantStore,
  { run_id, asked }: Pick<JobRunRow, "run_id" | "asked">,
): Promise<JobRunStanding | undefined> {
  if (asked.workflow === undefined) {
    const [row] = await store.read(selectStanding, run_id);
    return row as unknown as JobRunStanding | undefined;
  }
  const run = await workflowRunById(store, run_id);
  if (run === undefined) return undefined;
  const { status, error, outputs: final, finished_at: ended_at } = run;
  const failure = status === "cancelled" ? "cancelled" : error;
  return {
    status: endOfWorkflow[status] ?? status,
    ended_at,
    wake_at: null,
    final,
    error: ended_at === null ? null : failure,
  };
}

/** The outcomes of runs of workflows, as those of agents are called. */
const endOfWorkflow: Readonly<Record<string, string>> = { succeeded: "completed", cancelled: "failed" };

/** Returns tenants with open runs of jobs, in pages. */
export async function tenantsWithOpenJobRuns(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectTenants, after, limit)).map(({ tenant_id }) => tenant_id as string);
}
