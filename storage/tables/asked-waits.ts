import { tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";

// Waits as clients know them: by the thread and the id that their frame has told.

const selectAsked = tenantSql(
  "wait_asked",
  `SELECT wait_id, run_id, suffix FROM waits
   WHERE tenant_id = :tenant AND asked_on = ? AND asked_as = ? AND state = 'open' AND kind = ?`,
);
const selectNth = tenantSql(
  "waits_open_nth",
  "SELECT 1 AS found FROM waits WHERE tenant_id = :tenant AND state = 'open' LIMIT 1 OFFSET ?",
);

/** Questions that all runs of one tenant may have open (decision 105). */
export const waitsOfTenantMax = 20_000;

/** What clients are to answer. */
export interface AskedWait {
  readonly kind: "client_tool" | "question";
  /** The id that they were told. */
  readonly asked_as: string;
}

/** The open wait that a client means which was asked on a thread, by its own run or a task; undefined when there is none. */
export async function openWaitAs(
  store: TenantStore,
  threadKey: number,
  { kind, asked_as }: AskedWait,
): Promise<{ readonly wait_id: string; readonly run_id: string; readonly suffix: string } | undefined> {
  const [row] = await store.read(selectAsked, threadKey, asked_as, kind);
  return row as { wait_id: string; run_id: string; suffix: string } | undefined;
}

/** Whether the tenant may put no other question. */
export async function tenantWaitsAreFull(store: TenantStore, max = waitsOfTenantMax): Promise<boolean> {
  return (await store.read(selectNth, max - 1)).length > 0;
}
