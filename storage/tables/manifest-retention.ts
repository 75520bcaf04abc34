import { systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import { integer, table, text } from "../store/table.ts";

// Manifests with spec.governance.retention_days (decision 191), so that the sweep finds the data of their runs. A row is written with the
// first run of the manifest, and deleted by a sweep that finds no such field.

table(
  "manifest_retention",
  {
    manifest: text,
    /** Time of the first run. */
    since: integer,
  },
  ({ text: manifest }) => ({ manifest, since: 5 }),
);

const insertRetained = tenantSql(
  "manifest_retention_insert",
  "INSERT INTO manifest_retention (tenant_id, manifest, since) VALUES (:tenant, ?, ?) ON CONFLICT DO NOTHING",
);
const deleteRetained = tenantSql(
  "manifest_retention_delete",
  "DELETE FROM manifest_retention WHERE tenant_id = :tenant AND manifest = ?",
);
const selectRetained = systemSql(
  "manifest_retention_page",
  `SELECT tenant_id, manifest FROM manifest_retention WHERE (tenant_id, manifest) > (?, ?)
   ORDER BY tenant_id, manifest LIMIT ?`,
);
const selectIdle = tenantSql(
  "manifest_retention_idle",
  `SELECT suffix, updated_at FROM threads t
   WHERE tenant_id = :tenant AND updated_at > 0 AND updated_at < ? AND (updated_at, suffix) > (?, ?) AND manifest = ?
     AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_key = t.thread_key AND r.ended_at IS NULL)
   ORDER BY updated_at, suffix LIMIT ?`,
);
const endedRuns = `FROM runs WHERE tenant_id = :tenant AND manifest = ? AND ended_at < ? ORDER BY ended_at, run_key LIMIT ?`;
const deleteCalls = tenantSql(
  "manifest_retention_calls",
  `DELETE FROM model_calls WHERE tenant_id = :tenant AND run_id IN (SELECT run_id ${endedRuns})`,
);
const deleteRuns = tenantSql(
  "manifest_retention_runs",
  `DELETE FROM runs WHERE tenant_id = :tenant AND run_key IN (SELECT run_key ${endedRuns}) RETURNING run_key`,
);
const dropArtifacts = tenantSql(
  "manifest_retention_artifacts",
  `UPDATE artifacts SET state = 'gone' WHERE tenant_id = :tenant AND artifact_id IN
     (SELECT artifact_id FROM artifacts WHERE tenant_id = :tenant AND state = 'kept' AND created_at < ? AND manifest = ?
      ORDER BY created_at, artifact_id LIMIT ?) RETURNING created_at`,
);

/** A manifest with a retention of its own. */
export interface RetainedManifest {
  readonly tenant_id: string;
  readonly manifest: string;
}

/** Rows of one batch. */
const batchRows = 500;

/** Records that runs of the manifest leave data with a retention of its own. */
export function noteRetentionOp(store: TenantStore, manifest: string, now: number): WriteOp {
  return store.op(insertRetained, [manifest, now]);
}

/** Forgets a manifest that no longer has a retention of its own. */
export async function forgetRetention(store: TenantStore, manifest: string): Promise<void> {
  await store.write([store.op(deleteRetained, [manifest])]);
}

/** Returns the next manifests after one, in order. */
export async function nextRetained(
  store: Store,
  after: RetainedManifest,
  limit: number,
): Promise<readonly RetainedManifest[]> {
  const rows = await store.system.read(selectRetained, after.tenant_id, after.manifest, limit);
  return rows as unknown as RetainedManifest[];
}

/** Passes the idle threads of a manifest to `erase`, in pages. Returns the number of erased ones. */
export async function eraseIdleOf(
  store: TenantStore,
  manifest: string,
  until: number,
  pageRows: number,
  erase: (suffix: string) => Promise<boolean>,
): Promise<number> {
  let erased = 0;
  for (let after: readonly [number, string] = [1, ""]; ; ) {
    const page = await store.read(selectIdle, until, ...after, manifest, pageRows);
    const gone = await Promise.all(page.map(({ suffix }) => erase(suffix as string)));
    erased += gone.filter(Boolean).length;
    const last = page.at(-1);
    if (!last || page.length < pageRows) return erased;
    after = [last.updated_at as number, last.suffix as string];
  }
}

/** Deletes ended runs with the records of their calls, and marks artifacts as deleted. Returns their number. */
export async function deleteRecordsOf(store: TenantStore, manifest: string, until: number): Promise<number> {
  const ended = [manifest, until, batchRows];
  // The records first, because their deletion reads the runs.
  const runs = await inBatches(store, () => [store.op(deleteCalls, ended), store.op(deleteRuns, ended)]);
  return runs + (await inBatches(store, () => [store.op(dropArtifacts, [until, manifest, batchRows])]));
}

async function inBatches(store: TenantStore, next: () => readonly WriteOp[]): Promise<number> {
  for (let total = 0; ; ) {
    const rows = (await store.write([...next()])).at(-1) ?? [];
    total += rows.length;
    if (rows.length < batchRows) return total;
  }
}
