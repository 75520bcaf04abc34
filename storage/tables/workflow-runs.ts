import type { Principal } from "../../bus/protocol/principal.ts";
import { list } from "../store/list.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
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
import { leaveBudgetOps } from "./run-budgets.ts";

// Runs of workflows and the state of their steps. Every transition of a run is one batch that raises its version and requires the one
// before, so two processes never advance a run together. The item of a step is -1, and that of each item of a map its number.

const runTable = table(
  "workflow_runs",
  {
    id: text,
    workflow_id: text,
    revision: integer,
    status: oneOf("queued", "running", "waiting", "cancelling", "cancelled", "succeeded", "failed"),
    /** JSON of an object. */
    inputs: text,
    /** Untrusted sources of the inputs. */
    taint: json<readonly string[]>(),
    /** JSON of an object; null before a success. */
    outputs: nullable(text),
    error: nullable(text),
    version: integer,
    /** Who started it, with the scopes that both the starter and the author of the revision had. */
    starter: json<Omit<Principal, "tenant_id">>(),
    cause: oneOf("request", "trigger", "job"),
    /** Secret from which the ids of the runs of its steps are derived. */
    seed: text,
    /** Cost of the ended steps. */
    cost_usd: real,
    /** Time of its start. */
    ts: integer,
    finished_at: nullable(integer),
    /** Time at which the run is to be looked at; null after its end. */
    wake_at: nullable(integer),
  },
  ({ text }) => ({
    ...{ id: "run", workflow_id: "row", revision: 1, status: "running" as const, inputs: text, taint: [text] },
    ...{ outputs: text, error: text, version: 1, cause: "request" as const, seed: text, cost_usd: 1, ts: 5 },
    ...{ finished_at: 5, wake_at: 5 },
    starter: { sub: text, scopes: [], scheme: "api_key", issuer: "" },
  }),
);

/** A stored run of a workflow. */
export type WorkflowRunRow = RowIn<typeof runTable>;

const stepTable = table(
  "workflow_steps",
  {
    run_id: text,
    step_id: text,
    item: integer,
    status: oneOf("pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"),
    /** Number of the current try, from 1; 0 before the first. */
    attempt: integer,
    /** The durable run that works for the step. */
    child_run_id: nullable(text),
    /** JSON of an object of ports; null before a success. */
    output: nullable(text),
    /** The output as lists and frames show it; null if that is the output itself. */
    shown: nullable(text),
    error: nullable(text),
    /** Untrusted sources of the output. */
    taint: json<readonly string[]>(),
    /** JSON of the progress of the step. */
    state: nullable(text),
    /** Time at which the step is to be looked at again. */
    due_at: nullable(integer),
    cost_usd: real,
    started_at: nullable(integer),
    finished_at: nullable(integer),
  },
  ({ text }) => ({
    ...{ run_id: "run", step_id: "row", item: -1, status: "running" as const, attempt: 1, child_run_id: text },
    ...{
      output: text,
      shown: text,
      error: text,
      taint: [text],
      state: text,
      due_at: 5,
      cost_usd: 1,
      started_at: 5,
      finished_at: 5,
    },
  }),
);

/** The stored state of a step, or of an item of a map. */
export type WorkflowStepRow = RowIn<typeof stepTable>;

/** A run that is due. */
export interface DueWorkflowRun {
  readonly tenant_id: string;
  readonly id: string;
  readonly wake_at: number;
}

const insertRun = insertInto(runTable);
const putStep = upsertInto(stepTable, ["run_id", "step_id", "item"]);
const updateRun = tenantSql(
  "workflow_run_advance",
  `UPDATE workflow_runs SET status = ?, outputs = ?, error = ?, version = version + 1, cost_usd = ?, finished_at = ?, wake_at = ?
   WHERE tenant_id = :tenant AND id = ? AND version = ? AND finished_at IS NULL`,
);
const putOff = tenantSql(
  "workflow_run_put_off",
  "UPDATE workflow_runs SET wake_at = ? WHERE tenant_id = :tenant AND id = ? AND version = ? AND finished_at IS NULL",
);
const wakeStep = tenantSql(
  "workflow_step_wake",
  `UPDATE workflow_steps SET due_at = :now
   WHERE tenant_id = :tenant AND run_id = ? AND step_id = ? AND item = -1 AND status = 'waiting' AND due_at > :now`,
);
const wakeRun = tenantSql(
  "workflow_run_wake",
  "UPDATE workflow_runs SET wake_at = :now WHERE tenant_id = :tenant AND id = ? AND finished_at IS NULL AND wake_at > :now",
);
const selectSteps = tenantSql(
  "workflow_steps_of_run",
  `SELECT ${stepTable.columns} FROM workflow_steps WHERE tenant_id = :tenant AND run_id = ? AND item = -1 ORDER BY step_id`,
);
const selectShown = tenantSql(
  "workflow_steps_shown",
  `SELECT ${stepTable.columns.replace(/\boutput\b/, "COALESCE(shown, output) AS output")} FROM workflow_steps
   WHERE tenant_id = :tenant AND run_id = ? AND item = -1 ORDER BY step_id`,
);
const selectVersion = tenantSql(
  "workflow_run_version",
  "SELECT version, finished_at FROM workflow_runs WHERE tenant_id = :tenant AND id = ?",
);
const selectItems = tenantSql(
  "workflow_items_of_step",
  `SELECT ${stepTable.columns} FROM workflow_steps
   WHERE tenant_id = :tenant AND run_id = ? AND step_id = ? AND item >= 0 ORDER BY item`,
);
const selectDue = systemSql(
  "workflow_runs_due",
  "SELECT tenant_id, id, wake_at FROM workflow_runs WHERE wake_at IS NOT NULL AND wake_at <= :now ORDER BY wake_at LIMIT ?",
);
const selectOpenNth = tenantSql(
  "workflow_runs_open_nth",
  "SELECT 1 AS is_there FROM workflow_runs WHERE tenant_id = :tenant AND finished_at IS NULL LIMIT 1 OFFSET ?",
);
const selectOld = systemSql(
  "workflow_runs_old",
  `SELECT tenant_id, id, finished_at FROM workflow_runs WHERE finished_at <= ? AND (finished_at, tenant_id, id) > (?, ?, ?)
   ORDER BY finished_at, tenant_id, id LIMIT ?`,
);
const selectWorked = tenantSql(
  "workflow_steps_worked",
  `SELECT step_id, item FROM workflow_steps WHERE tenant_id = :tenant AND run_id = ? AND child_run_id IS NOT NULL
   ORDER BY step_id, item`,
);
const deleteRun = tenantSql("workflow_run_delete", "DELETE FROM workflow_runs WHERE tenant_id = :tenant AND id = ?");
const deleteSteps = tenantSql(
  "workflow_steps_delete",
  "DELETE FROM workflow_steps WHERE tenant_id = :tenant AND run_id = ?",
);
const endRestored = systemSql(
  "workflow_runs_end_restored",
  `UPDATE workflow_runs SET status = 'failed', error = 'restored', version = version + 1, finished_at = :now, wake_at = NULL
   WHERE finished_at IS NULL`,
);

/** Returns a run by its id. */
export const workflowRunById = selectOne(runTable, ["id"]);

/** Returns a step of a run, or an item of a map. */
export const workflowStep = selectOne(stepTable, ["run_id", "step_id", "item"]);

/** Returns a page of runs, newest first. Refuses with invalid_cursor. */
export const workflowRunsPage = list(runTable, ["workflow_id"], {
  indexes: { workflow_id: "workflow_runs_by_workflow" },
  long: { columns: ["inputs", "outputs"], bytesMax: 4_194_304 },
}).page;

/** Begins a run and its steps. The batch refuses with conflict if the run exists. */
export function beginWorkflowRunOps(
  store: TenantStore,
  run: WorkflowRunRow,
  steps: readonly WorkflowStepRow[],
): WriteOp[] {
  return [insertRun(store, run), ...steps.map((step) => putStep(store, step))];
}

/** The part of a run that its transitions change. */
export type RunChange = Pick<WorkflowRunRow, "status" | "outputs" | "error" | "cost_usd" | "finished_at" | "wake_at">;

/** Advances a run from `version` with the changed steps. The batch refuses with conflict if another process has advanced or ended it. */
export function advanceRunOps(
  store: TenantStore,
  id: string,
  version: number,
  { status, outputs, error, cost_usd, finished_at, wake_at }: RunChange,
  steps: readonly WorkflowStepRow[],
): WriteOp[] {
  return [
    store.op(updateRun, [status, outputs, error, cost_usd, finished_at, wake_at, id, version], 1),
    ...steps.map((step) => putStep(store, step)),
  ];
}

/**
 * Sets the time at which an open run is looked at, and the changed due times of its steps. It is no new version. The batch refuses with
 * conflict if another process has advanced or ended the run.
 */
export function putOffRunOps(
  store: TenantStore,
  { id, version }: Pick<WorkflowRunRow, "id" | "version">,
  wakeAt: number,
  steps: readonly WorkflowStepRow[],
): WriteOp[] {
  return [store.op(putOff, [wakeAt, id, version], 1), ...steps.map((step) => putStep(store, step))];
}

/** Makes a waiting step and its run due, in the batch that stores what the step waits for. The message that follows may be lost. */
export function wakeStepOps(store: TenantStore, runId: string, stepId: string): WriteOp[] {
  return [store.op(wakeStep, [runId, stepId]), store.op(wakeRun, [runId])];
}

/** Returns the steps of a run, without the items of its maps. */
export async function stepsOfRun(store: TenantStore, runId: string): Promise<WorkflowStepRow[]> {
  return (await store.read(selectSteps, runId)).map(stepTable.decode);
}

/** Returns the same with outputs as lists and frames show them, without reading longer ones. */
export async function shownStepsOfRun(store: TenantStore, runId: string): Promise<WorkflowStepRow[]> {
  return (await store.read(selectShown, runId)).map(stepTable.decode);
}

/** Returns the version of a run, and whether it has ended; null for an unknown run. */
export async function workflowRunVersion(
  store: TenantStore,
  runId: string,
): Promise<{ readonly version: number; readonly isEnded: boolean } | null> {
  const [row] = await store.read(selectVersion, runId);
  return row === undefined ? null : { version: Number(row.version), isEnded: row.finished_at !== null };
}

/** Returns the items of a map that have begun, in order. */
export async function itemsOfStep(store: TenantStore, runId: string, stepId: string): Promise<WorkflowStepRow[]> {
  return (await store.read(selectItems, runId, stepId)).map(stepTable.decode);
}

/** Returns up to `limit` runs that are due, the longest waiting first. */
export async function dueWorkflowRuns(store: Scope, limit: number): Promise<DueWorkflowRun[]> {
  return (await store.read(selectDue, limit)) as unknown as DueWorkflowRun[];
}

/** True if at least `count` runs of the tenant are unfinished. */
export async function hasOpenWorkflowRuns(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectOpenNth, count - 1)).length > 0;
}

/** Ends the unfinished runs of a restored backup, whose steps may have ended after it was made. */
export function endRestoredWorkflowRunsOp(store: Scope): WriteOp {
  return store.op(endRestored, []);
}

/** A run that has ended. */
export interface EndedWorkflowRun {
  readonly tenant_id: string;
  readonly id: string;
  readonly finished_at: number;
}

/** Returns runs that finished at or before `until`, in pages. */
export async function oldWorkflowRuns(
  store: Scope,
  until: number,
  after: EndedWorkflowRun | null,
  limit: number,
): Promise<EndedWorkflowRun[]> {
  const { finished_at = -1, tenant_id = "", id = "" } = after ?? {};
  return (await store.read(selectOld, until, finished_at, tenant_id, id, limit)) as unknown as EndedWorkflowRun[];
}

/** Returns the steps and items of a run for which durable runs have worked. Each has a thread. */
export async function workedUnits(
  store: TenantStore,
  runId: string,
): Promise<Pick<WorkflowStepRow, "step_id" | "item">[]> {
  return (await store.read(selectWorked, runId)) as unknown as Pick<WorkflowStepRow, "step_id" | "item">[];
}

/** Deletes an ended run with its steps, and its budget, which a run that a restore has ended still has. */
export async function deleteWorkflowRun(store: TenantStore, id: string): Promise<void> {
  await store.write([store.op(deleteSteps, [id]), ...leaveBudgetOps(store, id), store.op(deleteRun, [id])]);
}
