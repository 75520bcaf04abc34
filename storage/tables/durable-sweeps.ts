import { type Param, systemSql } from "../store/statements.ts";
import type { Scope } from "../store/store.ts";
import type { DurablePlace } from "./durable-rows.ts";
import { runsMax } from "./runs.ts";

// Durable runs of all tenants that a periodic task must handle: due, expired, unready, or ended long ago.

/** A durable run that has ended. */
export interface EndedAlone extends DurablePlace {
  readonly ended_at: number;
}

const selectOpen = systemSql(
  "fibers_open",
  `SELECT tenant_id, suffix, run_id, run_key, manifest_body FROM fibers
   WHERE run_key > ? AND ended_at IS NULL ORDER BY run_key LIMIT ?`,
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
/** A requeued run continues the log of the dead run, so the log is deleted with the last of them. */
const selectEndedAlone = systemSql(
  "fibers_ended_alone",
  `SELECT tenant_id, suffix, run_id, ended_at FROM fibers f
   WHERE ended_at <= ? AND (ended_at, run_id) > (?, ?) AND (suffix LIKE 'fiber:%' OR suffix LIKE 'eval:%') AND NOT EXISTS
     (SELECT 1 FROM fibers n WHERE n.run_key > f.run_key AND n.run_key < (f.run_key / ${runsMax} + 1) * ${runsMax}
        AND (n.ended_at IS NULL OR n.ended_at > ?))
   ORDER BY ended_at, run_id LIMIT ?`,
);
// Keeps the rows of runs whose log still exists: the next sweep needs them to retry a failed deletion.
const deleteEnded = systemSql(
  "fibers_delete_ended",
  `DELETE FROM fibers WHERE run_key IN
     (SELECT run_key FROM fibers f WHERE ended_at <= ? AND NOT ((suffix LIKE 'fiber:%' OR suffix LIKE 'eval:%') AND EXISTS
        (SELECT 1 FROM threads t WHERE t.tenant_id = f.tenant_id AND t.suffix = f.suffix))
      ORDER BY ended_at LIMIT ?) RETURNING run_key`,
);

/** A durable run that has not ended. */
export interface OpenDurable extends DurablePlace {
  readonly run_key: number;
  readonly manifest_body: string | null;
}

/** Returns durable runs that have not ended, in pages by key. */
export async function openDurables(store: Scope, afterKey: number, limit: number): Promise<OpenDurable[]> {
  return (await store.readLong(selectOpen, afterKey, limit)) as unknown as OpenDurable[];
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

/** Returns runs without a conversation that ended at or before `until`, in pages. Their logs are deleted with them. */
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
