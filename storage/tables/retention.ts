import { type Param, type Statement, systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore } from "../store/store.ts";
import { lapseApprovals } from "./approvals.ts";

// Deletes rows past the retention time, tenant by tenant, in batches small enough not to delay others. A tenant without
// old rows costs one query.

/** Rows of one batch. */
const batchRows = 500;
const dayMs = 86_400_000;

/** Declares a query for the next tenant with rows in a table; it also returns whether any of them are old. */
function declareTenants(name: string, table: string, isOld: string): Statement {
  return systemSql(
    `${name}_next_tenant`,
    `SELECT t.tenant_id, EXISTS (SELECT 1 FROM ${table} WHERE tenant_id = t.tenant_id AND ${isOld}) AS has_old
     FROM ${table} t WHERE t.tenant_id > ? ORDER BY t.tenant_id LIMIT 1`,
  );
}

const auditTenants = declareTenants("audit", "audit", "ts < ?");
const deleteAudit = tenantSql(
  "audit_delete_old",
  `DELETE FROM audit WHERE tenant_id = :tenant AND (ts, id) IN
     (SELECT ts, id FROM audit a WHERE tenant_id = :tenant AND ts < ? AND NOT EXISTS
       (SELECT 1 FROM audit_unsealed u WHERE u.tenant_id = a.tenant_id AND u.ts = a.ts AND u.id = a.id)
      ORDER BY ts, id LIMIT ?) RETURNING ts`,
);
const usageTenants = declareTenants("usage", "usage", "ts < ?");
const deleteUsage = tenantSql(
  "usage_delete_old",
  `DELETE FROM usage WHERE tenant_id = :tenant AND (ts, id) IN
     (SELECT ts, id FROM usage WHERE tenant_id = :tenant AND ts < ? ORDER BY ts, id LIMIT ?) RETURNING ts`,
);
const usageDaysTenants = declareTenants("usage_days", "usage_days", `day < CAST(? AS BIGINT) / ${dayMs}`);
const deleteUsageDays = tenantSql(
  "usage_days_delete_old",
  `DELETE FROM usage_days WHERE tenant_id = :tenant AND (day, manifest_id, model_id, slot) IN
     (SELECT day, manifest_id, model_id, slot FROM usage_days WHERE tenant_id = :tenant AND day < CAST(? AS BIGINT) / ${dayMs}
      ORDER BY day, manifest_id, model_id, slot LIMIT ?) RETURNING day`,
);
const approvalTenants = declareTenants("approvals", "approvals", "ts < ?");
// A grant stays as long as it allows calls.
const deleteApprovals = tenantSql(
  "approvals_delete_old",
  `DELETE FROM approvals WHERE tenant_id = :tenant AND id IN
     (SELECT id FROM approvals WHERE tenant_id = :tenant AND ts < ? AND decided_at < ? AND status <> 'pending'
        AND (status <> 'approved' OR decided_at + (deadline - ts) <= :now)
      ORDER BY ts, id LIMIT ?) RETURNING ts`,
);
const isUpload = "state = 'kept' AND thread_key IS NULL AND created_at < ?";
const uploadTenants = declareTenants("uploads", "files", isUpload);
const dropUploads = tenantSql(
  "uploads_drop_old",
  `UPDATE files SET state = 'gone' WHERE tenant_id = :tenant AND file_id IN
     (SELECT file_id FROM files WHERE tenant_id = :tenant AND ${isUpload} ORDER BY created_at, file_id LIMIT ?) RETURNING created_at`,
);
const isArtifact = "state = 'kept' AND created_at < ?";
const artifactTenants = declareTenants("artifacts", "artifacts", isArtifact);
const dropArtifacts = tenantSql(
  "artifacts_drop_old",
  `UPDATE artifacts SET state = 'gone' WHERE tenant_id = :tenant AND artifact_id IN
     (SELECT artifact_id FROM artifacts WHERE tenant_id = :tenant AND ${isArtifact} ORDER BY created_at, artifact_id LIMIT ?)
   RETURNING created_at`,
);
const threadTenants = declareTenants("threads", "threads", "updated_at > 0 AND updated_at < ?");
const selectIdle = declareIdle("threads_idle", "updated_at", "updated_at > 0");
// Threads of tasks, and logs of runs without a thread, have the time 0 too; they are deleted with their owner.
const isUnsaid =
  "updated_at = 0 AND parent_session_id IS NULL AND suffix NOT LIKE 'fiber:%' AND suffix NOT LIKE 'eval:%'";
const unsaidTenants = declareTenants("threads_unsaid", "threads", `${isUnsaid} AND created_at < ?`);
const selectUnsaid = declareIdle("threads_unsaid", "created_at", isUnsaid);

/** Declares a query for threads without an open run, by one of their times. */
function declareIdle(name: string, time: "updated_at" | "created_at", which: string): Statement {
  return tenantSql(
    name,
    `SELECT suffix, ${time} AS idle_since FROM threads t
     WHERE tenant_id = :tenant AND ${which} AND ${time} < ? AND (${time}, suffix) > (?, ?)
       AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_key = t.thread_key AND r.ended_at IS NULL)
     ORDER BY ${time}, suffix LIMIT ?`,
  );
}

/** Work on the chain of a tenant before and after its rows are deleted. */
interface ChainWork {
  before(tenant: TenantStore): Promise<void>;
  after(tenant: TenantStore): Promise<void>;
}

/** Deletes sealed audit rows older than `until`. Returns their number. */
export function deleteOldAudit(store: Store, until: number, chain: ChainWork): Promise<number> {
  return ofTenants(store, auditTenants, until, async (tenant) => {
    await chain.before(tenant);
    const deleted = await inBatches(tenant, deleteAudit, until);
    await chain.after(tenant);
    return deleted;
  });
}

/** Deletes usage rows older than a UTC day, and the daily sums. Returns the number of rows. */
export async function deleteOldUsage(store: Store, untilDay: number): Promise<number> {
  const until = untilDay * dayMs;
  const rows = await ofTenants(store, usageTenants, until, (tenant) => inBatches(tenant, deleteUsage, until));
  await ofTenants(store, usageDaysTenants, until, (tenant) => inBatches(tenant, deleteUsageDays, until));
  return rows;
}

/**
 * Deletes approval requests that were made and decided before `until`, unless they still allow calls. Expired requests
 * are marked as decided first; pending ones stay. Returns the number of deleted requests.
 */
export function deleteOldApprovals(store: Store, until: number): Promise<number> {
  return ofTenants(store, approvalTenants, until, async (tenant) => {
    await lapseApprovals(tenant);
    return inBatches(tenant, deleteApprovals, until, until);
  });
}

/** Marks uploads older than `until` as deleted; the file sweep deletes their bytes. Returns their number. */
export function dropOldUploads(store: Store, until: number): Promise<number> {
  return ofTenants(store, uploadTenants, until, (tenant) => inBatches(tenant, dropUploads, until));
}

/** Marks artifacts older than `until` as deleted; the artifact sweep deletes their texts. Returns their number. */
export function dropOldArtifacts(store: Store, until: number): Promise<number> {
  return ofTenants(store, artifactTenants, until, (tenant) => inBatches(tenant, dropArtifacts, until));
}

/**
 * Passes idle threads without an open run to `erase`, in pages. A thread without messages is idle since its creation.
 * Returns the number of erased threads.
 */
export async function eraseIdleThreads(
  store: Store,
  until: number,
  pageRows: number,
  erase: (tenant: TenantStore, suffix: string) => Promise<boolean>,
): Promise<number> {
  const eraseOf = (statement: Statement) => async (tenant: TenantStore) => {
    let erased = 0;
    // Starts above 0, so that threads with the time 0 are not scanned.
    for (let after: readonly [number, string] = [1, ""]; ; ) {
      const page = await tenant.read(statement, until, ...after, pageRows);
      const gone = await Promise.all(page.map(({ suffix }) => erase(tenant, suffix as string)));
      erased += gone.filter(Boolean).length;
      const last = page.at(-1);
      if (!last || page.length < pageRows) return erased;
      after = [last.idle_since as number, last.suffix as string];
    }
  };
  const said = await ofTenants(store, threadTenants, until, eraseOf(selectIdle));
  return said + (await ofTenants(store, unsaidTenants, until, eraseOf(selectUnsaid)));
}

async function ofTenants(
  store: Store,
  tenants: Statement,
  until: number,
  work: (tenant: TenantStore) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (let after = ""; ; ) {
    const [row] = await store.system.read(tenants, until, after);
    if (row === undefined) return total;
    after = row.tenant_id as string;
    if (row.has_old) total += await work(store.tenant(after));
  }
}

async function inBatches(store: TenantStore, statement: Statement, ...params: Param[]): Promise<number> {
  for (let total = 0; ; ) {
    const [rows = []] = await store.write([store.op(statement, [...params, batchRows])]);
    total += rows.length;
    if (rows.length < batchRows) return total;
  }
}
