import { tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import type { SeqRange } from "./events.ts";
import { type RunRow, runKeys } from "./runs.ts";

// The part of a durable run that other runs lack: a row next to the one in `runs`. It exists from the batch that
// accepts the run until its thread is deleted or a sweep removes it. It stores when the run is due, how often its step
// has failed or was lost, and how long it may wait. Times are those of the store's clock. The row in `runs` names the
// owner; every write here is in one batch with a statement that checks it.

/** The columns of a durable run. */
export const durableColumns = {
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
  /** Digest of the manifests that it resumes with; see manifest-bodies.ts. Null to resume with the current ones. */
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
const wakePutOff = tenantSql(
  "fibers_wake_put_off",
  `UPDATE fibers SET wake_at = :now WHERE tenant_id = :tenant AND ended_at IS NULL AND wake_at > :now AND attempts = 0 AND lost = 0`,
);
const endDurable = tenantSql(
  "fiber_end",
  `UPDATE fibers SET wake_at = NULL, ended_at = :now, updated_at = :now, final = ?, error = ?, expires_at = ? WHERE ${ofRun}`,
);
const selectResting = tenantSql(
  "fiber_rests",
  `SELECT 1 AS is_there FROM fibers WHERE ${ofRun} AND (wake_at > :now OR held = 1)`,
);
const selectQueuedNth = tenantSql(
  "fibers_queued_nth",
  `SELECT 1 AS is_there FROM fibers WHERE tenant_id = :tenant AND begun_at IS NULL AND ended_at IS NULL LIMIT 1 OFFSET ?`,
);
const deleteOfRuns = tenantSql(
  "fibers_delete",
  "DELETE FROM fibers INDEXED BY fibers_run WHERE tenant_id = :tenant AND run_key >= ? AND run_key < ?",
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

/** Records that another run continues this dead one. Refuses with conflict if one does already. */
export function requeueDurableOp(store: TenantStore, runId: string, by: string): WriteOp {
  return store.op(requeueDurable, [by, runId], 1);
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

/** Makes the runs of a tenant due at once that were put off without a failure, such as those that were frozen. */
export function wakePutOffDurablesOp(store: TenantStore): WriteOp {
  return store.op(wakePutOff, []);
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
