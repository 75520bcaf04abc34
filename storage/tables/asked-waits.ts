import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";

// Waits as clients identify them: by thread and by the id in their frame.

const selectAsked = tenantSql(
  "wait_asked",
  `SELECT wait_id, run_id, suffix FROM waits
   WHERE tenant_id = :tenant AND asked_on = ? AND asked_as = ? AND state = 'open' AND kind = ?`,
);
const selectNth = tenantSql(
  "waits_open_nth",
  "SELECT 1 AS found FROM waits WHERE tenant_id = :tenant AND state = 'open' LIMIT 1 OFFSET ?",
);

/** Max open waits of all runs of one tenant (decision 105). */
export const waitsOfTenantMax = 20_000;

/** A wait that clients answer. */
export interface AskedWait {
  readonly kind: "client_tool" | "question";
  /** The id that clients received. */
  readonly asked_as: string;
}

/** Returns the open wait with this id on a thread, of its own run or of a task; undefined if there is none. */
export async function openWaitAs(
  store: TenantStore,
  threadKey: number,
  { kind, asked_as }: AskedWait,
): Promise<{ readonly wait_id: string; readonly run_id: string; readonly suffix: string } | undefined> {
  const [row] = await store.read(selectAsked, threadKey, asked_as, kind);
  return row as { wait_id: string; run_id: string; suffix: string } | undefined;
}

/** True if the tenant has reached its limit of open waits. */
export async function tenantWaitsAreFull(store: TenantStore, max = waitsOfTenantMax): Promise<boolean> {
  return (await store.read(selectNth, max - 1)).length > 0;
}
