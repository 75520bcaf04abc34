import { readCursor, writeCursor } from "../store/cursor.ts";
import type { Param } from "../store/statements.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { type RunRow, runKeys, runsMax } from "./runs.ts";

// What only durable runs have: a row beside that in `runs`, from the batch that accepts the run until its thread is deleted or it is
// swept. It says when the run is to be taken up, how often its step has failed or was lost, and how long it may wait. Times are the
// store's. Who runs it is said by the row in `runs`: what is written here stands in one batch with something that is guarded by it.

const durableColumns = {
  /** Also the resume token. */
  run_id: text,
  run_key: integer,
  suffix: text,
  accepted_at: integer,
  /** When its first step has begun. */
  begun_at: nullable(integer),
  ttl_ms: integer,
  expires_at: integer,
  /** When it is to be taken up; null while it runs, while it waits for somebody outside, and when it is over. */
  wake_at: nullable(integer),
  /** Failures of the current step. */
  attempts: integer,
  /** How often the process crashed during that step. */
  lost: integer,
  updated_at: integer,
  ended_at: nullable(integer),
  /** What it has answered. */
  final: nullable(text),
  /** Why there is no answer, as `code` or `code: message`. */
  error: nullable(text),
  /** The run that goes on with this one, which is dead; null while none does. */
  requeued_as: nullable(text),
  /** By which manifests it goes on: see manifest-bodies.ts. Null for one of a release that has not kept them. */
  manifest_body: nullable(text),
  /** 1 for a run of a backup that was restored, until somebody lets it go: see held-runs.ts. */
  held: integer,
};
/** The table itself, for the statements that join it with another. */
export const durableTable = table("fibers", durableColumns);

/** What only durable runs have, as it is stored. */
export type DurableRunRow = RowIn<typeof durableTable>;

/** Where a durable run lives. */
export interface DurablePlace {
  readonly tenant_id: string;
  readonly suffix: string;
  readonly run_id: string;
}

/** The same of one that is over. */
export interface EndedAlone extends DurablePlace {
  readonly ended_at: number;
}

/** What came of a durable run. */
export type DurableEnd = Pick<DurableRunRow, "final" | "error" | "expires_at">;

/** Runs of one tenant that wait for their first step (decision 105). */
const queuedMax = 10_000;
/** How long behind its acceptance a run may go on waiting, if nothing that it waits for has a later deadline. */
const lifeMsMax = 7 * 86_400_000;
/** How long a run stays behind the deadline of what it waits for. */
const graceMs = 60_000;
/** How long a run may wait for a slot. */
const queuedMsMax = 86_400_000;

const { columns } = durableTable;
const ofRun = "tenant_id = :tenant AND run_id = ?";
/** Behind a step: its time again, within its life. */
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
/** A run that goes on with a dead one has its log in the same place: that goes with the last of them. */
const selectEndedAlone = systemSql(
  "fibers_ended_alone",
  `SELECT tenant_id, suffix, run_id, ended_at FROM fibers f
   WHERE ended_at <= ? AND (ended_at, run_id) > (?, ?) AND suffix LIKE 'fiber:%' AND NOT EXISTS
     (SELECT 1 FROM fibers n WHERE n.run_key > f.run_key AND n.run_key < (f.run_key / ${runsMax} + 1) * ${runsMax}
        AND (n.ended_at IS NULL OR n.ended_at > ?))
   ORDER BY ended_at, run_id LIMIT ?`,
);
// A log that could not be deleted is found again by the row of its run.
const deleteEnded = systemSql(
  "fibers_delete_ended",
  `DELETE FROM fibers WHERE run_key IN
     (SELECT run_key FROM fibers f WHERE ended_at <= ? AND NOT (suffix LIKE 'fiber:%' AND EXISTS
        (SELECT 1 FROM threads t WHERE t.tenant_id = f.tenant_id AND t.suffix = f.suffix))
      ORDER BY ended_at LIMIT ?) RETURNING run_key`,
);

/** Runs without a conversation that ended at or before a time, in pages: their logs go with them. */
export async function endedAlone(
  store: Scope,
  until: number,
  after: EndedAlone | null,
  limit: number,
): Promise<EndedAlone[]> {
  const rows = await store.read(selectEndedAlone, until, after?.ended_at ?? -1, after?.run_id ?? "", until, limit);
  return rows as unknown as EndedAlone[];
}

/** Deletes at most `limit` rows of runs that ended at or before a time, but for those whose own log is still there; answers how many. */
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
// A run is begun when it is accepted, and few are dead: they have an index of their own.
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

/** One page of durable runs, newest first, all or those of one status. Refuses with invalid_cursor. */
export async function durablePage(
  store: TenantStore,
  status: string | null,
  cursor: string | null,
  limit: number,
): Promise<{ rows: ListedDurable[]; next_cursor: string | null }> {
  const before = cursor === null ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor, ["number", "string"]);
  // The row after the page, if there is one, says that there is another page.
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

/** Which dead runs are meant. */
export interface DeadRuns {
  /** Of this manifest; null for any. */
  readonly manifest: string | null;
  /** Dead by then, in epoch milliseconds. */
  readonly until: number;
  /** Behind the page that has ended there; null for the first. */
  readonly cursor: string | null;
}

/** A dead run that no other goes on with, and the cursor of what is behind it. */
export interface DeadRun {
  readonly run_id: string;
  readonly suffix: string;
  readonly cursor: string;
}

/** Dead runs that no other goes on with, oldest first. Refuses with invalid_cursor. */
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

/** Another run goes on with this one, which is over. Refuses with conflict when one does already. */
export function requeueDurableOp(store: TenantStore, runId: string, by: string): WriteOp {
  return store.op(requeueDurable, [by, runId], 1);
}

/** A durable run that is not over. */
export interface OpenDurable extends DurablePlace {
  readonly run_key: number;
  readonly manifest_body: string | null;
}

/** Durable runs that are not over, in pages by their keys. */
export async function openDurables(store: Scope, afterKey: number, limit: number): Promise<OpenDurable[]> {
  return (await store.readLong(selectOpen, afterKey, limit)) as unknown as OpenDurable[];
}

/** Whether a run rests until a time, since a step of it has failed or was lost, or is held: an answer to what it waits for changes nothing of that. */
export async function isResting(store: TenantStore, runId: string): Promise<boolean> {
  return (await store.read(selectResting, runId)).length > 0;
}

/** The durable run of a resume token, if the tenant has it. */
export const durableRowById = selectOne(durableTable, ["run_id"]);

/**
 * A durable run is accepted, and is due or has begun with that. `at` is when, by the clock of who accepts it: it is told when the run
 * expires.
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

/** It is taken up. */
export function claimDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(claimDurable, [runId], 1);
}

/** A step of it is in the log. */
export function stepDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(stepDurable, [lifeMsMax, runId]);
}

/** It waits for somebody outside: until a minute after the last of them may answer, at least. */
export function suspendDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(suspendDurable, [lifeMsMax, runId, runId]);
}

/** It is put aside for so long: since its step has `failed`, or to let others go first. */
export function putOffDurableOp(store: TenantStore, runId: string, ms: number, failed: boolean): WriteOp {
  return store.op(putOff, [ms, failed ? 1 : 0, lifeMsMax, ms, runId]);
}

/** Who ran it is gone: it is to be taken up in so many milliseconds. */
export function loseDurableOp(store: TenantStore, runId: string, ms: number): WriteOp {
  return store.op(loseDurable, [ms, lifeMsMax, ms, runId]);
}

/** It is to be taken up at once. Changes nothing when it is over, or due already. */
export function wakeDurableOp(store: TenantStore, runId: string): WriteOp {
  return store.op(wakeDurable, [runId]);
}

/** It is over. */
export function endDurableOp(store: TenantStore, runId: string, { final, error, expires_at }: DurableEnd): WriteOp {
  return store.op(endDurable, [final, error, expires_at, runId]);
}

/** Deletes what the durable runs of a thread with numbers in a range have. Goes with `deleteRunsOp`. */
export function deleteDurablesOp(store: TenantStore, threadKey: number, range: SeqRange): WriteOp {
  return store.op(deleteOfRuns, runKeys(threadKey, range));
}

/** Until when a run may wait whose step ends now, by the clock of who runs it. */
export function renewedUntil(
  now: number,
  { ttl_ms, accepted_at }: Pick<DurableRunRow, "ttl_ms" | "accepted_at">,
): number {
  return Math.min(now + ttl_ms, accepted_at + lifeMsMax);
}

/** Whether as many runs of the tenant wait for their first step as may. */
export async function durableQueueIsFull(store: TenantStore): Promise<boolean> {
  return (await store.read(selectQueuedNth, queuedMax - 1)).length > 0;
}

/**
 * Whether a run that is to be taken up may not: its time is over, which it never is while it is due for less than a day, or it is held,
 * and then its time does not pass.
 */
export async function whetherStopped(store: TenantStore, runId: string): Promise<"expired" | "held" | null> {
  const [row] = await store.read(selectMayGoOn, runId);
  if (Number(row?.held ?? 0) === 1) return "held";
  return Number(row?.expired ?? 0) === 1 ? "expired" : null;
}

/** Runs that are to be taken up, the longest waiting first, in pages. */
export async function dueDurables(
  store: Scope,
  after: { readonly wake_at: number; readonly run_id: string },
  limit: number,
): Promise<(DurablePlace & { readonly wake_at: number })[]> {
  const rows = await store.read(selectDue, after.wake_at, after.run_id, limit);
  return rows as unknown as (DurablePlace & { wake_at: number })[];
}

/** Runs that wait for somebody outside, and have waited too long. */
export async function expiredDurables(store: Scope, limit: number): Promise<DurablePlace[]> {
  const rows: Record<string, Param>[] = await store.read(selectExpired, limit);
  return rows as unknown as DurablePlace[];
}
