import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { writeStored } from "./stored-bytes.ts";

// Jobs: what an agent is asked again and again, at the times of a schedule or when somebody says so. Times are the store's. Whoever
// takes a job's next time out of its row has fired it: no two hosts do.

/** Who has written a job last: its runs have these scopes, whoever starts them. */
export interface JobOwner {
  readonly sub: string;
  readonly scopes: readonly string[];
  readonly scheme: string;
  readonly issuer: string;
}

/** What a job asks its agent. */
export interface JobPayload {
  readonly prompt?: string;
  readonly message?: string;
  readonly fresh_thread?: boolean;
}

const jobTable = table("jobs", {
  name: text,
  /** Empty for a job that only runs on request. */
  schedule: text,
  manifest_id: text,
  payload: json<JobPayload>(),
  /** 0 or 1. */
  enabled: integer,
  owner: json<JobOwner>(),
  created_at: integer,
  last_run_at: nullable(integer),
  /** Null when it is not to run by itself. */
  next_run_at: nullable(integer),
  /** Of the newest run: empty before the first, and then as in job_runs. */
  last_status: text,
  last_error: text,
  /** What it counts for. Who changes that names what it was: a batch that was given up and applied late counts nothing twice. */
  bytes: integer,
});

/** A job as it is stored. */
export type JobRow = RowIn<typeof jobTable>;

/** What somebody writes of a job. */
export type JobWritten = Pick<JobRow, "name" | "schedule" | "manifest_id" | "payload" | "enabled" | "owner">;

/** A row counts for more than its text, so that small ones are not for nothing. */
const rowBytes = 512;

const insertJob = insertInto(jobTable);
const updateJob = tenantSql(
  "job_update",
  `UPDATE jobs SET schedule = ?, manifest_id = ?, payload = ?, enabled = ?, owner = ?, next_run_at = ?, bytes = ?
   WHERE tenant_id = :tenant AND name = ? AND bytes = ?`,
);
const deleteJob = tenantSql("job_delete", "DELETE FROM jobs WHERE tenant_id = :tenant AND name = ? AND bytes = ?");
const selectJobs = tenantSql(
  "jobs_all",
  `SELECT ${jobTable.columns} FROM jobs WHERE tenant_id = :tenant ORDER BY name LIMIT ?`,
);
const selectNth = tenantSql(
  "jobs_nth",
  "SELECT 1 AS is_there FROM jobs WHERE tenant_id = :tenant ORDER BY name LIMIT 1 OFFSET ?",
);
const takeTime = tenantSql(
  "job_take_time",
  "UPDATE jobs SET next_run_at = ? WHERE tenant_id = :tenant AND name = ? AND next_run_at = ? AND next_run_at <= :now",
);
const beginJob = tenantSql(
  "job_begin",
  "UPDATE jobs SET last_run_at = ?, last_status = 'running', last_error = '' WHERE tenant_id = :tenant AND name = ?",
);
const endJob = tenantSql(
  "job_end",
  `UPDATE jobs SET last_status = ?, last_error = ? WHERE tenant_id = :tenant AND name = ? AND last_run_at = ?`,
);
const selectDueTenants = systemSql(
  "jobs_due_tenants",
  `SELECT DISTINCT tenant_id FROM jobs WHERE next_run_at IS NOT NULL AND next_run_at <= :now AND tenant_id > ?
   ORDER BY tenant_id LIMIT ?`,
);
const selectDue = tenantSql(
  "jobs_due",
  `SELECT ${jobTable.columns} FROM jobs
   WHERE tenant_id = :tenant AND next_run_at IS NOT NULL AND next_run_at <= :now ORDER BY next_run_at, name LIMIT ?`,
);
const selectClock = systemSql("store_clock", "SELECT :now AS now");

/** A job of a tenant. */
export const storedJob = selectOne(jobTable, ["name"]);

/** The time by the store's clock. */
export async function storeNow(store: Scope): Promise<number> {
  const [row] = await store.read(selectClock);
  return row?.now as number;
}

/** The tenant's jobs by name. */
export async function jobsOf(store: TenantStore, limit: number): Promise<JobRow[]> {
  return (await store.read(selectJobs, limit)).map(jobTable.decode);
}

/** Whether the tenant has at least `count` jobs. */
export async function hasJobs(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectNth, count - 1)).length > 0;
}

/**
 * Writes a job in the place of `before`, or a new one, with `ops` in its batch. `limit` is the tenant's on what it stores. Refuses with
 * storage_quota_exceeded, and with conflict when it is another by now, or is there.
 */
export async function writeJob(
  store: TenantStore,
  before: JobRow | undefined,
  written: JobWritten,
  { now, next_run_at, limit, ops }: { now: number; next_run_at: number | null; limit: number; ops: readonly WriteOp[] },
): Promise<void> {
  const { name, schedule, manifest_id, payload, enabled, owner } = written;
  const payloadText = JSON.stringify(payload);
  const ownerText = JSON.stringify(owner);
  const bytes = Buffer.byteLength(payloadText) + Buffer.byteLength(ownerText) + rowBytes;
  const changed = [schedule, manifest_id, payloadText, enabled, ownerText, next_run_at];
  const op =
    before === undefined
      ? insertJob(store, { ...written, created_at: now, last_run_at: null, next_run_at, ...neverRun, bytes })
      : store.op(updateJob, [...changed, bytes, name, before.bytes], 1);
  await writeStored(store, { kind: "jobs", bytes: bytes - (before?.bytes ?? 0) }, limit, [op, ...ops]);
}

const neverRun = { last_status: "", last_error: "" };

/** Deletes a job as it was read, with `ops` in its batch. Refuses with conflict when it is another by now, or gone. */
export async function removeJob(store: TenantStore, { name, bytes }: JobRow, ops: readonly WriteOp[]): Promise<void> {
  await writeStored(store, { kind: "jobs", bytes: -bytes }, 0, [store.op(deleteJob, [name, bytes], 1), ...ops]);
}

/** Takes the time at which a job is due, and gives it its next one. Refuses with conflict when somebody else has taken it. */
export function takeTimeOp(store: TenantStore, { name, next_run_at }: JobRow, next: number | null): WriteOp {
  return store.op(takeTime, [next, name, next_run_at], 1);
}

/** A run of the job begins. Refuses with conflict when the job is gone. */
export function beginJobOp(store: TenantStore, name: string, startedAt: number): WriteOp {
  return store.op(beginJob, [startedAt, name], 1);
}

/** What came of the run of a job that has begun last. Changes nothing for an older one. */
export function endJobOp(
  store: TenantStore,
  name: string,
  { startedAt, status, error }: { startedAt: number; status: string; error: string },
): WriteOp {
  return store.op(endJob, [status, error, name, startedAt]);
}

/** Tenants with jobs whose time has come, in pages. */
export async function tenantsWithDueJobs(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectDueTenants, after, limit)).map(({ tenant_id }) => tenant_id as string);
}

/** The jobs of a tenant whose time has come, the longest due first. */
export async function dueJobs(store: TenantStore, limit: number): Promise<JobRow[]> {
  return (await store.read(selectDue, limit)).map(jobTable.decode);
}
