import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { type ThreadRow, threadBySuffix } from "../../../storage/tables/threads.ts";
import { loadBranch } from "../../log/branch.ts";
import type { ContextMessage } from "../../log/message.ts";
import { branchBytesOf } from "../../log/thread-size.ts";
import type { EventLog } from "./event-log.ts";
import { inMemoryEventLog } from "./in-memory-event-log.ts";

/**
 * Returns the event log of a turn without a thread. A side turn (`side_of`) reads the current branch of a thread, even while a
 * run holds it. It never writes to that thread; its row and its usage rows name it.
 */
export function unthreadedLog({ principal, run_id, side_of }: SubmitTurn, store: Store, env: Env): EventLog {
  const { tenant_id } = principal;
  const log = inMemoryEventLog(store, tenant_id, run_id, env);
  if (side_of === undefined) return log;
  const tenant = store.tenant(tenant_id);
  return {
    ...log,
    threadId: `${tenant_id}:${side_of}`,
    async open(asked) {
      const opened = await log.open(asked);
      if (opened.kind !== "open") return opened;
      const { needed, withUser } = asked;
      const row = await spokenThread(tenant, side_of);
      const { thread_key, leaf_seq, meta } = row;
      await asked.makeRoom(await branchBytesOf(tenant, row, needed, withUser));
      const branch = closedPart(await loadBranch(tenant, thread_key, leaf_seq, needed, withUser));
      const { thinking_level = null, output_style = null } = meta;
      // A side turn has no tools, so a permission mode would have no effect.
      const mode = { permission_mode: "default" as const };
      return { kind: "open", thread: { ...opened.thread, branch, thinking_level, output_style, ...mode } };
    },
  };
}

/** Returns the manifest of the thread's last run; empty if there was none. Refuses with unknown_thread. */
export async function manifestOf(store: TenantStore, suffix: string): Promise<string> {
  return (await spokenThread(store, suffix)).manifest ?? "";
}

async function spokenThread(store: TenantStore, suffix: string): Promise<ThreadRow> {
  const row = await threadBySuffix(store, suffix);
  if (!row || row.next_seq === 0) throw new SvcError("unknown_thread");
  return row;
}

/** Returns the branch without a last reply whose calls have no results yet. Providers reject such a reply. */
function closedPart(branch: readonly ContextMessage[]): readonly ContextMessage[] {
  const asked = branch.findLastIndex(({ role }) => role !== "tool");
  const answered = new Set(branch.slice(asked + 1).map(({ tool_call_id }) => tool_call_id));
  const isOpen = branch[asked]?.tool_calls?.some(({ id }) => !answered.has(id)) ?? false;
  return isOpen ? branch.slice(0, asked) : branch;
}
