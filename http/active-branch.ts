import { type Address, splitThreadId } from "../bus/address.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { branchRanges } from "../storage/tables/branches.ts";
import { type LogEvent, readEvents, type SeqRange } from "../storage/tables/events.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import type { HttpContext } from "./context.ts";

/** The active branch as the thread's actor says now; `thread` is null for one that does not exist. */
export async function activeBranch(
  { bus, store }: HttpContext,
  address: Address<"thread">,
): Promise<{ thread: ThreadRow | null; branch: SeqRange[] }> {
  const { tenantId, suffix } = splitThreadId(address.key);
  const { leaf_seq } = await bus.ask(address, "attach", {});
  const tenant = store.tenant(tenantId);
  const thread = (await threadBySuffix(tenant, suffix)) ?? null;
  return { thread, branch: thread === null ? [] : await branchRanges(tenant, thread, leaf_seq) };
}

/** Events in the ranges, oldest first, in pages. */
export async function* eventPages(
  store: TenantStore,
  threadKey: number,
  ranges: readonly SeqRange[],
): AsyncGenerator<LogEvent[], void, void> {
  for (const { from, to } of ranges) {
    for (let seq = from; seq < to; ) {
      const page = await readEvents(store, threadKey, seq, to);
      const last = page.at(-1);
      // It is being deleted.
      if (!last) return;
      yield page;
      seq = last.seq + 1;
    }
  }
}
