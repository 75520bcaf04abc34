import { systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, TenantStore, WriteOp } from "../store/store.ts";
import type { WaitAnswer, WaitPush } from "./waits.ts";

// Waits of tool calls that were pushed to a list. A consumer identifies one by thread and call id, even after its end.

const selectQueued = tenantSql(
  "wait_queued",
  `SELECT wait_id, run_id, suffix, state, answer, call FROM waits
   WHERE tenant_id = :tenant AND asked_as = ? AND kind = 'queue' AND asked_on = ?`,
);
const keepLate = tenantSql(
  "wait_keep_late",
  "UPDATE waits SET answer = ? WHERE tenant_id = :tenant AND wait_id = ? AND state = 'closed' AND answer IS NULL",
);
const pushed = tenantSql("wait_pushed", "UPDATE waits SET push = NULL WHERE tenant_id = :tenant AND wait_id = ?");
const selectUnpushed = systemSql(
  "waits_unpushed",
  `SELECT tenant_id, wait_id, push FROM waits
   WHERE push IS NOT NULL AND state = 'open' AND opened_at < :now - ? AND (deadline IS NULL OR deadline > :now)
   ORDER BY opened_at, wait_id LIMIT ?`,
);

/** The columns of a wait that a consumer needs. */
export interface QueuedWait {
  readonly wait_id: string;
  readonly run_id: string;
  readonly suffix: string;
  readonly state: "open" | "answered" | "expired" | "closed";
  readonly answer: WaitAnswer | null;
  readonly tool: string;
}

/** Returns the wait of a call on a thread; undefined if there is none. */
export async function queuedWait(
  store: TenantStore,
  threadKey: number,
  toolCallId: string,
): Promise<QueuedWait | undefined> {
  const [row] = await store.read(selectQueued, toolCallId, threadKey);
  if (row === undefined) return undefined;
  const { answer, call, ...rest } = row;
  return {
    ...(rest as Pick<QueuedWait, "wait_id" | "run_id" | "suffix" | "state">),
    answer: answer === null ? null : (JSON.parse(answer as string) as WaitAnswer),
    tool: (JSON.parse(call as string) as { tool: string }).tool,
  };
}

/**
 * Stores an answer that arrived after the end of the wait. Refuses with conflict if the wait is open, or has an answer.
 */
export function keepLateAnswerOp(store: TenantStore, waitId: string, answer: WaitAnswer): WriteOp {
  return store.op(keepLate, [JSON.stringify({ ...answer, late: true }), waitId], 1);
}

/** Records that the call is in the list. */
export function pushedOp(store: TenantStore, waitId: string): WriteOp {
  return store.op(pushed, [waitId]);
}

/** Returns calls that should have been pushed `olderMs` ago but possibly were not, oldest first. */
export async function unpushed(
  store: Scope,
  olderMs: number,
  limit: number,
): Promise<{ tenant_id: string; wait_id: string; push: WaitPush }[]> {
  const rows = await store.read(selectUnpushed, olderMs, limit);
  return rows.map(({ tenant_id, wait_id, push }) => ({
    tenant_id: tenant_id as string,
    wait_id: wait_id as string,
    push: JSON.parse(push as string) as WaitPush,
  }));
}
