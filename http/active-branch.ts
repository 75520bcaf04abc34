import { type Address, splitThreadId } from "../bus/address.ts";
import { breathe } from "../bus/env.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { branchRanges } from "../storage/tables/branches.ts";
import { type LogEvent, readEvents, type SeqRange } from "../storage/tables/events.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import { pieceBytes } from "./backlog/shared-pages.ts";
import type { HttpContext } from "./context.ts";

/**
 * The active branch as it is stored; `thread` is null for one that does not exist. The thread's actor is asked first, so that what a
 * run that is gone has left is closed. What it knows itself may be older: others read a commit before it has heard of it, and who was
 * told that a run is over is to find its last word.
 */
export async function activeBranch(
  { bus, store }: HttpContext,
  address: Address<"thread">,
): Promise<{ thread: ThreadRow | null; branch: SeqRange[] }> {
  const { tenantId, suffix } = splitThreadId(address.key);
  await bus.ask(address, "attach", {});
  const tenant = store.tenant(tenantId);
  const thread = (await threadBySuffix(tenant, suffix)) ?? null;
  return { thread, branch: thread === null ? [] : await branchRanges(tenant, thread, thread.leaf_seq) };
}

/**
 * Events in the ranges, oldest first, in pages. Each is read in a turn of the event loop of its own: where a read is answered at once,
 * as on SQLite, a long log would otherwise keep everybody else waiting.
 */
export async function* eventPages(
  { env }: Pick<HttpContext, "env">,
  store: TenantStore,
  threadKey: number,
  ranges: readonly SeqRange[],
): AsyncGenerator<LogEvent[], void, void> {
  let isFirst = true;
  for (const { from, to } of ranges) {
    for (let seq = from; seq < to; ) {
      if (!isFirst) await breathe(env);
      isFirst = false;
      const page = await readEvents(store, threadKey, seq, to, pieceBytes);
      const last = page.at(-1);
      // It is being deleted.
      if (!last) return;
      yield page;
      seq = last.seq + 1;
    }
  }
}
