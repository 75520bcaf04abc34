import { type Address, splitThreadId } from "../bus/address.ts";
import { breathe } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { branchRanges } from "../storage/tables/branches.ts";
import { type LogEvent, readEvents, type SeqRange } from "../storage/tables/events.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import { pieceBytes } from "./backlog/shared-pages.ts";
import type { HttpContext } from "./context.ts";

/**
 * Returns the stored active branch of a thread; `thread` is null if the thread does not exist. Asks the thread's actor first, so that it
 * closes runs that a dead process left open. Reads the store and not the actor's memory, which may be older: another reader can see a
 * commit before the actor does. A client that was notified of a run's end must find its last event.
 */
export async function activeBranch(
  { bus, store }: HttpContext,
  address: Address<"thread">,
): Promise<{ thread: ThreadRow | null; branch: SeqRange[] }> {
  const { tenantId, suffix } = splitThreadId(address.key);
  await bus.ask(address, "attach", {}).catch((error: unknown) => {
    // The actor is on a host that cannot be reached; its stored events can be read.
    if (SvcError.from(error).code !== "dependency_unavailable") throw error;
  });
  const tenant = store.tenant(tenantId);
  const thread = (await threadBySuffix(tenant, suffix)) ?? null;
  return { thread, branch: thread === null ? [] : await branchRanges(tenant, thread, thread.leaf_seq) };
}

/**
 * Yields the events of the ranges in pages, oldest first. Yields to the event loop before each further page: SQLite reads return at once,
 * so a long log would otherwise block all other requests.
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
      // The thread was deleted during the read.
      if (!last) return;
      yield page;
      seq = last.seq + 1;
    }
  }
}
