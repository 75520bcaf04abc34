import { readCursor, writeCursor } from "../store/cursor.ts";
import type { Param } from "../store/statements.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { type RunRow, runKeys, runsMax } from "./runs.ts";

// The part of a durable run that other runs lack: a row next to the one in `runs`. It exists from the batch that
// accepts the run until its thread is deleted or a sweep removes it. It stores when the run is due, how often its step
// has failed or was lost, and how long it may wait. Times are those of the store's clock. The row in `runs` names the
// owner; every write here is in one batch with a statement that checks it.

const durableColumns = {
  /** Also the resume token. */
  run_id: text,
  run_key: integer,
  suffix: text,
  accepted_at: integer,
  /** Start of its first step. */
  begun_at: nullable(integer),
  ttl_ms: integer,
  expires_at: integer,
  /** Time at which the run is due. Null while it runs, waits for an external answer, or has ended. */
  wake_at: nullable(integer),
  /** Failures of the current step. */
  attempts: integer,
  /** How often the process crashed during that step. */
  lost: integer,
  updated_at: integer,
  ended_at: nullable(integer),
  /** The reply. */
  final: nullable(text),
  /** Reason of a missing reply, as `code` or `code: message`. */
  error: nullable(text),
  /** The run that continues this dead one; null if there is none. */
  requeued_as: nullable(text),
  /**
   * Digest of the manifests that it resumes with; see manifest-bodies.ts. Null for runs of releases that did not store
   * them.
   */
  manifest_body: nullable(text),
  /** 1 for a run of a restored backup until an operator releases it; see held-runs.ts. */
  held: integer,
};
/** Exported for statements that join it with another table. */
export const durableTable = table("fibers", durableColumns);

/** The durable part of a run, as it is stored. */
export type DurableRunRow = RowIn<typeof durableTable>;

/** Tenant, thread and id of a durable run. */
export interface DurablePlace {
  readonly tenant_id: string;
  readonly suffix: string;
  readonly run_id: string;
}

/** A durable run that has ended. */
export interface EndedAlone extends DurablePlace {
  readonly ended_at: number;
}

/** Outcome of a durable run. */
export type DurableEnd = Pick<DurableRunRow, "final" | "error" | "expires_at">;

/** Max runs of one tenant that wait for their first step (decision 105). */
const queuedMax = 10_000;
/** Max lifetime of a run after its acceptance, unless it waits for an answer with a later deadline. */
const lifeMsMax = 7 * 86_400_000;
/** Time that a run stays after the deadline of its wait. */
const graceMs = 60_000;
/** Max wait of a run for a slot. */
const queuedMsMax = 86_400_000;

const { columns } = durableTable;
const ofRun = "tenant_id = :tenant AND run_id = ?";
/** Expiry after a step: the TTL starts again, up to the max lifetime. */
const renewed = { sqlite: "min(:now + ttl_ms, accepted_at + ?)", postgres: "LEAST(:now + ttl_ms, accepted_at + ?)" };
const openDeadline = `(SELECT COALESCE(MAX(w.deadline), 0) + ${graceMs} FROM waits w
     WHERE w.tenant_id = :tenant AND w.run_id = ? AND w.state = 'open')`;

const insertDurable = tenantSql(
  "fiber_insert",
  `INSERT INTO fibers (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, CASE WHEN CAST(? AS INTEGER) = 1 THEN :now END, ?, ?, ?, 0, 0, :now, NULL, NULL, NULL, NULL, ?, 0)`,
);
const claimDurable = tenantSql(
  "fiber_claim",
  `UPDATE fibers SET wake_at = NULL, begun_at = COALESCE(begun_at, :now), updated_at = :now WHERE ${ofRun}`,
);
const stepDurable = tenantSql("fiber_step", {
  sqlite: `UPDATE fibers SET attempts = 0, lost = 0, expires_at = ${renewed.sqlite}, updated_at = :now WHERE ${ofRun}`,
  postgres: `UPDATE fibers SET attempts = 0, lost = 0, expires_at = ${renewed.postgres}, updated_at = :now WHERE ${ofRun}`,
});
const suspendDurable = tenantSql("fiber_park", {
  sqlite: `UPDATE fibers SET wake_at = NULL, expires_at = max(${renewed.sqlite}, ${openDeadline}), updated_at = :now
   WHERE ${ofRun}`,
  postgres: `UPDATE fibers SET wake_at = NULL, expires_at = GREATEST(${renewed.postgres}, ${openDeadline}), updated_at = :now
   WHERE ${ofRun}`,
});
const putOff = tenantSql("fiber_put_off", {
  sqlite: `UPDATE fibers SET wake_at = :now + ?, attempts = attempts + ?,
     expires_at = max(${renewed.sqlite}, :now + ? + ${graceMs}), updated_at = :now WHERE ${ofRun}`,
  postgres: `UPDATE fibers SET wake_at = :now + ?, attempts = attempts + ?,
     expires_at = GREATEST(${renewed.postgres}, :now + ? + ${graceMs}), updated_at = :now WHERE ${ofRun}`,
});
const loseDurable = tenantSql("fiber_lose", {
  sqlite: `UPDATE fibers SET wake_at = :now + ?, lost = lost + 1,
     expires_at = max(expires_at, ${renewed.sqlite}, :now + ? + ${graceMs}), updated_at = :now WHERE ${ofRun}`,
  postgres: `UPDATE fibers SET wake_at = :now + ?, lost = lost + 1,
     expires_at = GREATEST(expires_at, ${renewed.postgres}, :now + ? + ${graceMs}), updated_at = :now WHERE ${ofRun}`,
});
const wakeDurable = tenantSql(
  "fiber_wake",
  `UPDATE fibers SET wake_at = :now WHERE ${ofRun} AND ended_at IS NULL AND (wake_at IS NULL OR wake_at > :now)`,
);
const endDurable = tenantSql(
  "fiber_end",
  `UPDATE fibers SET wake_at = NULL, ended_at = :now, updated_at = :now, final = ?, error = ?, expires_at = ? WHERE ${ofRun}`,
);
const selectResting = tenantSql(
  "fiber_rests",
  `SELECT 1 AS is_there FROM fibers WHERE ${ofRun} AND (wake_at > :now OR held = 1)`,
);
const selectOpen = systemSql(
  "fibers_open",
  `SELECT tenant_id, suffix, run_id, run_key, manifest_body FROM fibers
   WHERE run_key > ? AND ended_at IS NULL ORDER BY run_key LIMIT ?`,
);
const selectQueuedNth = tenantSql(
  "fibers_queued_nth",
  `SELECT 1 AS is_there FROM fibers WHERE tenant_id = :tenant AND begun_at IS NULL AND ended_at IS NULL LIMIT 1 OFFSET ?`,
);
const deleteOfRuns = tenantSql(
  "fibers_delete",
  "DELETE FROM fibers INDEXED BY fibers_run WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ?",
);
const selectDue = systemSql(
  "fibers_due",
  `SELECT tenant_id, suffix, run_id, wake_at FROM fibers
   WHERE wake_at IS NOT NULL AND wake_at <= :now AND held = 0 AND (wake_at, run_id) > (?, ?) ORDER BY wake_at, run_id LIMIT ?`,
);
const selectExpired = systemSql(
  "fibers_expired",
  `SELECT f.tenant_id, f.suffix, f.run_id FROM fibers f JOIN runs r ON r.run_key = f.run_key
   WHERE f.ended_at IS NULL AND f.wake_at IS NULL AND f.expires_at <= :now AND f.held = 0 AND r.status = 'waiting'
   ORDER BY f.expires_at LIMIT ?`,
);
const selectMayGoOn = tenantSql(
  "fiber_may_go_on",
  `SELECT held, CASE WHEN ended_at IS NULL AND
     ((wake_at IS NULL AND expires_at <= :now AND NOT EXISTS
        (SELECT 1 FROM waits w WHERE w.tenant_id = :tenant AND w.run_id = fibers.run_id AND w.state = 'answered'))
      OR wake_at + ${queuedMsMax} <= :now) THEN 1 ELSE 0 END AS expired FROM fibers WHERE ${ofRun}`,
);

const requeueDurable = tenantSql(
  "fiber_requeue",
  `UPDATE fibers SET requeued_as = ? WHERE ${ofRun} AND requeued_as IS NULL AND ended_at IS NOT NULL`,
);
/** A requeued run continues the log of the dead run, so the log is deleted with the last of them. */
const selectEndedAlone = systemSql(
  "fibers_ended_alone",
  `SELECT tenant_id, suffix, run_id, ended_at FROM fibers f
   WHERE ended_at <= ? AND (ended_at, run_id) > (?, ?) AND suffix LIKE 'fiber:%' AND NOT EXISTS
     (SELECT 1 FROM fibers n WHERE n.run_key > f.run_key AND n.run_key < (f.run_key / ${runsMax} + 1) * ${runsMax}
        AND (n.ended_at IS NULL OR n.ended_at > ?))
   ORDER BY ended_at, run_id LIMIT ?`,
);
// Keeps the rows of runs whose log still exists, because a failed deletion is found again by them.
const deleteEnded = systemSql(
  "fibers_delete_ended",
  `DELETE FROM fibers WHERE run_key IN
     (SELECT run_key FROM fibers f WHERE ended_at <= ? AND NOT (suffix LIKE 'fiber:%' AND EXISTS
        (SELECT 1 FROM threads t WHERE t.tenant_id = f.tenant_id AND t.suffix = f.suffix))
      ORDER BY ended_at LIMIT ?) RETURNING run_key`,
);

/** Returns runs without a thread that ended at or before `until`, in pages. Their logs are deleted with them. */
export async function endedAlone(
  store: Scope,
  until: number,
  after: EndedAlone | null,
  limit: number,
): Promise<EndedAlone[]> {
  const rows = await store.read(selectEndedAlone, until, after?.ended_at ?? -1, after?.run_id ?? "", until, limit);
  return rows as unknown as EndedAlone[];
}

/**
 * Deletes up to `limit` rows of runs that ended at or before `until`, except those whose own log still exists. Returns
 * their number.
 */
export async function deleteEndedDurables(store: Scope, until: number, limit: number): Promise<number> {
  const [rows] = await store.write([store.op(deleteEnded, [until, limit])]);
  return rows?.length ?? 0;
}

const listedTable = table("fibers", {
  ...durableColumns,
  status: text,
  manifest: text,
});
/** A durable run as lists show it. */
export type ListedDurable = RowIn<typeof listedTable>;

const listed = `SELECT ${columns.replace(/\w+/g, "f.$&")}, r.status, r.manifest FROM fibers f JOIN runs r ON r.run_key = f.run_key
   WHERE f.tenant_id = :tenant AND (f.accepted_at, f.run_id) < (?, ?)`;
const newestFirst = "ORDER BY f.accepted_at DESC, f.run_id DESC LIMIT ?";
const selectPage = tenantSql("fibers_page", `${listed} ${newestFirst}`);
const selectPageOfStatus = tenantSql("fibers_page_status", `${listed} AND r.status = ? ${newestFirst}`);
// Dead runs are few and have their own index. Their start time equals their acceptance.
const dead = "FROM runs r JOIN fibers f ON f.run_key = r.run_key WHERE r.tenant_id = :tenant AND r.status = 'dead'";
const selectPageOfDead = tenantSql(
  "fibers_page_dead",
  `SELECT ${columns.replace(/\w+/g, "f.$&")}, r.status, r.manifest ${dead} AND (r.started_at, r.run_id) < (?, ?)
   ORDER BY r.started_at DESC, r.run_id DESC LIMIT ?`,
);
const left = `SELECT f.run_id, f.suffix, r.started_at ${dead} AND (r.started_at, r.run_id) > (?, ?)
     AND f.requeued_as IS NULL AND f.ended_at <= ?`;
const oldestFirst = "ORDER BY r.started_at, r.run_id LIMIT ?";
const selectLeft = tenantSql("fibers_left", `${left} ${oldestFirst}`);
const selectLeftOfManifest = tenantSql("fibers_left_manifest", `${left} AND r.manifest = ? ${oldestFirst}`);

/** Returns one page of durable runs, newest first, optionally of one status. Refuses with invalid_cursor. */
export async function durablePage(
  store: TenantStore,
  status: string | null,
  cursor: string | null,
  limit: number,
): Promise<{ rows: ListedDurable[]; next_cursor: string | null }> {
  const before = cursor === null ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor, ["number", "string"]);
  // One row more than the page shows whether another page follows.
  const found = await (status === null
    ? store.read(selectPage, ...before, limit + 1)
    : status === "dead"
      ? store.read(selectPageOfDead, ...before, limit + 1)
      : store.readLong(selectPageOfStatus, ...before, status, limit + 1));
  const rows = found.map((row) => listedTable.decode(row));
  const more = rows.length > limit;
  if (more) rows.pop();
  const last = rows.at(-1);
  return { rows, next_cursor: more && last ? writeCursor([last.accepted_at, last.run_id]) : null };
}

/** The selection of dead runs. */
export interface DeadRuns {
  /** Manifest id; null for any. */
  readonly manifest: string | null;
  /** Latest time of death, in epoch milliseconds. */
  readonly until: number;
  /** Cursor of the previous page; null for the first. */
  readonly cursor: string | null;
}

/** A dead run that no other run continues, and the cursor after it. */
export interface DeadRun {
  readonly run_id: string;
  readonly suffix: string;
  readonly cursor: string;
}

/** Returns dead runs that no other run continues, oldest first. Refuses with invalid_cursor. */
export async function deadDurables(
  store: TenantStore,
  { manifest, until, cursor }: DeadRuns,
  limit: number,
): Promise<DeadRun[]> {
  const after = cursor === null ? [-1, ""] : readCursor(cursor, ["number", "string"]);
  const rows = await (manifest === null
    ? store.readLong(selectLeft, ...after, until, limit)
    : store.readLong(selectLeftOfManifest, ...after, until, manifest, limit));
  return rows.map((row) => {
    const { run_id, suffix, started_at } = row as unknown as { run_id: string; suffix: string; started_at: number };
    return { run_id, suffix, cursor: writeCursor([Number(started_at), run_id]) };
  });
}

/** Records that another run continues this dead one. Refuses with conflict if one does already. */
export function requeueDurableOp(store: TenantStore, runId: string, by: string): WriteOp {
  return store.op(requeueDurable, [by, runId], 1);
}

/** A durable run that has not ended. */
export interface OpenDurable extends DurablePlace {
  readonly run_key: number;
  readonly manifest_body: string | null;
}

/** Returns durable runs that have not ended, in pages by key. */
export async function openDurables(store: Scope, afterKey: number, limit: number): Promise<OpenDurable[]> {
  return (await store.readLong(selectOpen, afterKey, limit)) as unknown as OpenDurable[];
}

/**
 * True if a run is postponed after a failed or lost step, or is held. An answer to its wait does not resume it then.
 */
export async function isResting(store: TenantStore, runId: string): Promise<boolean> {
  return (await store.read(selectResting, runId)).length > 0;
}

/** Returns the durable row of a resume token, if the tenant has it. */
export const durableRowById = selectOne(durableTable, ["run_id"]);

/**
 * Inserts the durable row of an accepted run, which is due or has started. `at` is the acceptor's time, from which the
 * reported expiry derives.
 */
export function acceptDurableOp(
  store: TenantStore,
  { run_id, run_key, asked }: RunRow,
  suffix: string,
  at: number,
  isBegun = false,
): WriteOp {
  const ttlMs = asked.durable?.ttl_ms ?? 0;
  const dueAt = isBegun ? null : at;
  const times = [at, isBegun ? 1 : 0, ttlMs, at + ttlMs, dueAt];
  return store.op(insertDurable, [run_id, run_key, suffix, ...times, asked.durable?.body ?? null]);
}

/** Marks the run as running. */
export function claimDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(claimDurable, [runId], 1);
}

/** Resets the failure counts and renews the expiry, after a step is in the log. */
export function stepDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(stepDurable, [lifeMsMax, runId]);
}

/**
 * Suspends the run until an external answer. It expires at the earliest a minute after the last open wait's deadline.
 */
export function suspendDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(suspendDurable, [lifeMsMax, runId, runId]);
}

/** Postpones the run for `ms` milliseconds, after a failed step or to let others run first. */
export function putOffDurableOp(store: TenantStore, runId: string, ms: number, failed: boolean): WriteOp {
  return store.op(putOff, [ms, failed ? 1 : 0, lifeMsMax, ms, runId]);
}

/** Records the loss of the run's process; the run is due again in `ms` milliseconds. */
export function loseDurableOp(store: TenantStore, runId: string, ms: number): WriteOp {
  return store.op(loseDurable, [ms, lifeMsMax, ms, runId]);
}

/** Makes the run due at once. No effect if it has ended or is due already. */
export function wakeDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(wakeDurable, [runId]);
}

/** Ends the run. */
export function endDurableOp(store: TenantStore, runId: string, { final, error, expires_at }: DurableEnd): WriteOp {
  return store.op(endDurable, [final, error, expires_at, runId]);
}

/** Deletes the durable rows of a thread's runs with numbers in a range. Use together with `deleteRunsOp`. */
export function deleteDurablesOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}

/** Returns the expiry of a run whose step ends now, on the clock of the running process. */
export function renewedUntil(
  now: number,
  { ttl_ms, accepted_at }: Pick<DurableRunRow, "ttl_ms" | "accepted_at">,
): number {
  return Math.min(now + ttl_ms, accepted_at + lifeMsMax);
}

/** True if the tenant's queue of durable runs is full. */
export async function durableQueueIsFull(store: TenantStore): Promise<boolean> {
  return (await store.read(selectQueuedNth, queuedMax - 1)).length > 0;
}

/**
 * Returns why a due run must not resume: it has expired, or it is held, during which it cannot expire. A run that has
 * been due for less than a day never expires.
 */
export async function whetherStopped(store: TenantStore, runId: string): Promise<"expired" | "held" | null> {
  const [row] = await store.read(selectMayGoOn, runId);
  if (Number(row?.held ?? 0) === 1) return "held";
  return Number(row?.expired ?? 0) === 1 ? "expired" : null;
}

/** Returns due runs, the longest due first, in pages. */
export async function dueDurables(
  store: Scope,
  after: { readonly wake_at: number; readonly run_id: string },
  limit: number,
): Promise<(DurablePlace & { readonly wake_at: number })[]> {
  const rows = await store.read(selectDue, after.wake_at, after.run_id, limit);
  return rows as unknown as (DurablePlace & { wake_at: number })[];
}

/** Returns runs that have waited too long for an external answer. */
export async function expiredDurables(store: Scope, limit: number): Promise<DurablePlace[]> {
  const rows: Record<string, Param>[] = await store.read(selectExpired, limit);
  return rows as unknown as DurablePlace[];
}
