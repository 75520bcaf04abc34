import type { Logger } from "pino";
import { threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Store } from "../storage/store/store.ts";
import { type EndedAlone, endedAlone } from "../storage/tables/durable-sweeps.ts";
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
const threadsAtOnce = 10;
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

interface EraseDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly log: Pick<Logger, "warn">;
}

interface RetentionDeps extends EraseDeps {
  readonly env: Env;
  readonly settings: Retention;
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
    audit: [settings.auditRetentionDays, (until: number) => deleteOldAudit(store, until)],
  } as const;
  const deleted: Record<string, number> = {};
  for (const [kind, [days, deleteOld]] of Object.entries(kinds))
    if (days !== 0) deleted[kind] = await deleteOld(now - days * dayMs);
  return deleted;
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

/** Deletes one thread. A thread that is busy or fails to delete is left for the next sweep, and does not stop the others. */
async function erase(
  { bus, log }: EraseDeps,
  tenantId: string,
  suffix: string,
  asked: { readonly idle_since?: number },
): Promise<boolean> {
  const address = threadAddress(tenantId, suffix);
  try {
    return (await bus.ask(address, "erase", asked, { deadlineMs: eraseMsMax })).deleted;
  } catch (error) {
    if (!(error instanceof SvcError && error.code === "run_in_progress"))
      log.warn({ err: error, thread: address.key }, "expired rows could not be deleted; the sweep tries again");
    return false;
  }
}
