import type { Logger } from "pino";
import { threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { breathe, type Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import { allowPruning, pruneSeals, sealNext } from "../governance/audit-chain.ts";
import { type AuditKeys, auditKeysOf } from "../governance/audit-keys.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Store, TenantStore } from "../storage/store/store.ts";
import { type EndedAlone, endedAlone } from "../storage/tables/durable-sweeps.ts";
import {
  deleteRecordsOf,
  eraseIdleOf,
  forgetRetention,
  nextRetained,
  type RetainedManifest,
} from "../storage/tables/manifest-retention.ts";
import {
  deleteOldApprovals,
  deleteOldAudit,
  deleteOldUsage,
  dropOldArtifacts,
  dropOldUploads,
  eraseIdleThreads,
} from "../storage/tables/retention.ts";

const dayMs = 86_400_000;
/** Threads deleted in parallel. */
export const threadsAtOnce = 10;
/** Event logs of runs without a thread that are deleted in parallel. */
const logsAtOnce = 50;
/** Max time to delete one thread, because its tasks are ended first. */
const eraseMsMax = 60_000;

/** Retention of each kind of data in days; 0 for unlimited. */
export type Retention = Pick<
  Settings,
  | "auditRetentionDays"
  | "usageRetentionDays"
  | "approvalRetentionDays"
  | "attachmentRetentionDays"
  | "artifactRetentionDays"
  | "sessionRetentionDays"
>;

/** The services that delete threads. */
export interface EraseDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly log: Pick<Logger, "warn">;
}

interface RetentionDeps extends EraseDeps {
  readonly env: Env;
  readonly settings: Retention & Pick<Settings, "auditKey">;
}

/** Deletes data of tenants that is older than its retention. Returns the number deleted, by kind. */
export async function deleteByRetention(deps: RetentionDeps): Promise<Readonly<Record<string, number>>> {
  const { store, env, settings } = deps;
  const now = env.now();
  const kinds = {
    // First, because deleting a thread also deletes rows of the other kinds.
    conversations: [settings.sessionRetentionDays, (until: number) => eraseIdle(deps, until)],
    approvals: [settings.approvalRetentionDays, (until: number) => deleteOldApprovals(store, until)],
    uploads: [settings.attachmentRetentionDays, (until: number) => dropOldUploads(store, until)],
    artifacts: [settings.artifactRetentionDays, (until: number) => dropOldArtifacts(store, until)],
    usage: [settings.usageRetentionDays, (until: number) => deleteOldUsage(store, Math.floor(until / dayMs))],
    audit: [settings.auditRetentionDays, (until: number) => deleteAudit(deps, until)],
  } as const;
  const deleted: Record<string, number> = {};
  const ofManifests = await deleteByManifests(deps, now);
  if (ofManifests > 0) deleted.of_manifests = ofManifests;
  for (const [kind, [days, deleteOld]] of Object.entries(kinds))
    if (days !== 0) deleted[kind] = await deleteOld(now - days * dayMs);
  return deleted;
}

/** Manifests that are read at once. */
const manifestsAtOnce = 100;

/** Deletes data of manifests with retention_days (decision 191). Returns the number deleted. */
async function deleteByManifests(deps: RetentionDeps, now: number): Promise<number> {
  const { store } = deps;
  let deleted = 0;
  for (let after: RetainedManifest = { tenant_id: "", manifest: "" }; ; ) {
    const page = await nextRetained(store, after, manifestsAtOnce);
    for (const { tenant_id, manifest } of page) {
      const tenant = store.tenant(tenant_id);
      const days = await retentionOf(deps, tenant_id, manifest);
      if (days === "unknown") continue;
      if (days === null) {
        await forgetRetention(tenant, manifest);
        continue;
      }
      const until = now - days * dayMs;
      const eraseOne = (suffix: string) => erase(deps, tenant_id, suffix, { idle_since: until });
      deleted += await eraseIdleOf(tenant, manifest, until, threadsAtOnce, eraseOne);
      deleted += await deleteRecordsOf(tenant, manifest, until);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < manifestsAtOnce) return deleted;
    after = last;
  }
}

/** Returns spec.governance.retention_days of a manifest; null for none and for a deleted manifest. */
async function retentionOf(
  { bus, log }: EraseDeps,
  tenantId: string,
  name: string,
): Promise<number | null | "unknown"> {
  try {
    const asked = { name, thread_suffix: null };
    const { manifest } = await bus.ask({ kind: "manifests", key: tenantId }, "get", asked);
    const { spec } = JSON.parse(manifest) as { spec?: { governance?: { retention_days?: number | null } } };
    return spec?.governance?.retention_days ?? null;
  } catch (error) {
    if (error instanceof SvcError && error.code === "unknown_manifest") return null;
    log.warn({ err: error, manifest: name }, "a manifest could not be read; the sweep of its data tries again");
    return "unknown";
  }
}

/** Seals the audit rows, deletes the old ones, and then the seals that no row needs. */
function deleteAudit({ store, env, settings }: RetentionDeps, until: number): Promise<number> {
  const keys = auditKeysOf(settings);
  return deleteOldAudit(store, until, {
    async before(tenant) {
      await sealAll(tenant, keys, env);
      await allowPruning(tenant, keys, until);
    },
    after: (tenant) => pruneSeals(tenant, keys, until),
  });
}

/** Max seals of a tenant in one sweep. Rows without a seal are not deleted. */
const sealsMax = 1_000;

/** Seals rows until none are left, or the actor of the tenant seals at the same time. */
async function sealAll(tenant: TenantStore, keys: AuditKeys, env: Env): Promise<void> {
  try {
    for (let seals = 0; seals < sealsMax && (await sealNext(tenant, keys, env.now())) > 0; seals++) await breathe(env);
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "conflict")) throw error;
  }
}

/** Deletes the logs of durable runs without a thread that ended at or before a time. */
export async function eraseOldLogs(deps: EraseDeps, until: number): Promise<void> {
  for (let after: EndedAlone | null = null; ; ) {
    const page: EndedAlone[] = await endedAlone(deps.store.system, until, after, logsAtOnce);
    await Promise.all(page.map(({ tenant_id, suffix }) => erase(deps, tenant_id, suffix, {})));
    after = page.at(-1) ?? null;
    if (page.length < logsAtOnce) return;
  }
}

function eraseIdle(deps: EraseDeps, until: number): Promise<number> {
  return eraseIdleThreads(deps.store, until, threadsAtOnce, ({ tenantId }, suffix) =>
    erase(deps, tenantId, suffix, { idle_since: until }),
  );
}

async function erase(
  deps: EraseDeps,
  tenantId: string,
  suffix: string,
  asked: { readonly idle_since?: number },
): Promise<boolean> {
  return (await eraseThread(deps, tenantId, suffix, asked)) === "deleted";
}

/**
 * Deletes one thread; `kept` is also the answer for one that is not there. A thread that is busy or fails to delete is left for the next sweep,
 * and does not stop the others.
 */
export async function eraseThread(
  { bus, log }: EraseDeps,
  tenantId: string,
  suffix: string,
  asked: { readonly idle_since?: number },
): Promise<"deleted" | "kept" | "failed"> {
  const address = threadAddress(tenantId, suffix);
  try {
    return (await bus.ask(address, "erase", asked, { deadlineMs: eraseMsMax })).deleted ? "deleted" : "kept";
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "run_in_progress"))
      log.warn({ err: error, thread: address.key }, "expired rows could not be deleted; the sweep tries again");
    return "failed";
  }
}
