import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { writeStored } from "./stored-bytes.ts";

// Jobs: requests to an agent that run on a schedule or on demand. Times are those of the store's clock. A host fires a
// job by replacing the next time in its row, so no two hosts fire it.

/** The last author of a job. Its runs have these scopes, no matter how they start. */
export interface JobOwner {
  readonly sub: string;
  readonly scopes: readonly string[];
  readonly scheme: string;
  readonly issuer: string;
}

/** The request that a job sends to its agent. */
export interface JobPayload {
  readonly prompt?: string;
  readonly message?: string;
  readonly fresh_thread?: boolean;
  /** The workflow that the job starts instead of an agent, and its inputs. */
  readonly workflow?: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
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
  /** Null if it has no next scheduled time. */
  next_run_at: nullable(integer),
  /** Status of the newest run: empty before the first, and then as in job_runs. */
  last_status: text,
  last_error: text,
  /**
   * Bytes that the job counts against the quota. A change checks the previous value, so that a late retry of a batch
   * does not count twice.
   */
  bytes: integer,
});

/** A stored job. */
export type JobRow = RowIn<typeof jobTable>;

/** The columns that the author of a job sets. */
export type JobWritten = Pick<JobRow, "name" | "schedule" | "manifest_id" | "payload" | "enabled" | "owner">;

/** Bytes that a row counts in addition to its text. */
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

/** Returns a job of a tenant. */
export const storedJob = selectOne(jobTable, ["name"]);

/** Returns the time of the store's clock. */
export async function storeNow(store: Scope): Promise<number> {
  const [row] = await store.read(selectClock);
  return row?.now as number;
}

/** Returns the tenant's jobs by name. */
export async function jobsOf(store: TenantStore, limit: number): Promise<JobRow[]> {
  return (await store.read(selectJobs, limit)).map(jobTable.decode);
}

/** True if the tenant has at least `count` jobs. */
export async function hasJobs(store: TenantStore, count: number): Promise<boolean> {
  return (await store.read(selectNth, count - 1)).length > 0;
}

/**
 * Replaces the job `before`, or inserts a new one, with `ops` in the same batch. `limit` is the tenant's storage quota.
 * Refuses with storage_quota_exceeded, and with conflict if the job has changed or exists.
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

/**
 * Deletes a job as it was read, with `ops` in the same batch. Refuses with conflict if it has changed or does not
 * exist.
 */
export async function removeJob(store: TenantStore, { name, bytes }: JobRow, ops: readonly WriteOp[]): Promise<void> {
  await writeStored(store, { kind: "jobs", bytes: -bytes }, 0, [store.op(deleteJob, [name, bytes], 1), ...ops]);
}

/** Replaces the due time of a job by its next one. Refuses with conflict if another process has done so. */
export function takeTimeOp(store: TenantStore, { name, next_run_at }: JobRow, next: number | null): WriteOp {
  return store.op(takeTime, [next, name, next_run_at], 1);
}

/** Records the start of a run in its job. Refuses with conflict if the job was deleted. */
export function beginJobOp(store: TenantStore, name: string, startedAt: number): WriteOp {
  return store.op(beginJob, [startedAt, name], 1);
}

/** Records the outcome of the job's newest run. No effect for an older run. */
export function endJobOp(
  store: TenantStore,
  name: string,
  { startedAt, status, error }: { startedAt: number; status: string; error: string },
): WriteOp {
  return store.op(endJob, [status, error, name, startedAt]);
}

/** Returns tenants with due jobs, in pages. */
export async function tenantsWithDueJobs(store: Scope, after: string, limit: number): Promise<string[]> {
  return (await store.read(selectDueTenants, after, limit)).map(({ tenant_id }) => tenant_id as string);
}

/** Returns the due jobs of a tenant, the longest due first. */
export async function dueJobs(store: TenantStore, limit: number): Promise<JobRow[]> {
  return (await store.read(selectDue, limit)).map(jobTable.decode);
}
