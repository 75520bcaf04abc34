import { threadAddress } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Store } from "../storage/store/store.ts";
import {
  deleteOldApprovals,
  deleteOldAudit,
  deleteOldUsage,
  dropOldUploads,
  eraseIdleThreads,
} from "../storage/tables/aged.ts";

const dayMs = 86_400_000;
/** Conversations that are deleted at once. */
const threadsAtOnce = 10;
/** How long one of them may take: its tasks are ended before. */
const eraseMsMax = 60_000;

/** How many days what is kept; 0 for ever. */
export type Retention = Pick<
  Settings,
  | "auditRetentionDays"
  | "usageRetentionDays"
  | "approvalRetentionDays"
  | "attachmentRetentionDays"
  | "sessionRetentionDays"
>;

interface AgedDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly env: Env;
  readonly settings: Retention;
}

/** Deletes what tenants have kept for longer than the settings say. Answers how many there were of each. */
export async function deleteAged({ store, bus, env, settings }: AgedDeps): Promise<Readonly<Record<string, number>>> {
  const now = env.now();
  const kinds = {
    // A conversation takes more with it than its own row: before the rest.
    conversations: [settings.sessionRetentionDays, (until: number) => eraseIdle(store, bus, until)],
    approvals: [settings.approvalRetentionDays, (until: number) => deleteOldApprovals(store, until)],
    uploads: [settings.attachmentRetentionDays, (until: number) => dropOldUploads(store, until)],
    usage: [settings.usageRetentionDays, (until: number) => deleteOldUsage(store, Math.floor(until / dayMs))],
    audit: [settings.auditRetentionDays, (until: number) => deleteOldAudit(store, until)],
  } as const;
  const deleted: Record<string, number> = {};
  for (const [kind, [days, deleteOld]] of Object.entries(kinds))
    if (days !== 0) deleted[kind] = await deleteOld(now - days * dayMs);
  return deleted;
}

/** One at which somebody is just at work is left for the next time. */
function eraseIdle(store: Store, bus: Bus, until: number): Promise<number> {
  return eraseIdleThreads(store, until, threadsAtOnce, async ({ tenantId }, suffix) => {
    const address = threadAddress(tenantId, suffix);
    try {
      return (await bus.ask(address, "erase", { idle_since: until }, { deadlineMs: eraseMsMax })).deleted;
    } catch (error) {
      if (error instanceof SvcError && error.code === "run_in_progress") return false;
      throw error;
    }
  });
}
