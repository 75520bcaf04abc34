import type { TenantStore } from "../../../storage/store/store.ts";
import { type LogEvent, pageRows, readEventsBefore } from "../../../storage/tables/events.ts";
import { type ContextMessage, messageOf } from "./message.ts";

/**
 * The newest `needed` messages of the active branch, oldest first: walks from the leaf to the root, along the parents, in pages.
 * Reads on until the window does not begin inside a group of tool results and, with `withUser`, has a user's message.
 */
export async function loadBranch(
  store: TenantStore,
  threadKey: number,
  leafSeq: number,
  needed: number,
  withUser: boolean,
): Promise<ContextMessage[]> {
  const newestFirst: ContextMessage[] = [];
  let hasUser = !withUser;
  // Every message has few events beside it that are not messages: twice as many rows are nearly always enough.
  const pageSize = Math.min(pageRows, needed * 2 + 8);
  for await (const event of branchEvents(store, threadKey, leafSeq, pageSize)) {
    const message = messageOf(event);
    if (!message) continue;
    newestFirst.push(message);
    hasUser ||= message.role === "user";
    if (hasUser && newestFirst.length >= needed && message.role !== "tool") break;
  }
  return newestFirst.reverse();
}

/** Events of the active branch from the leaf to the root. */
export async function* branchEvents(
  store: TenantStore,
  threadKey: number,
  leafSeq: number,
  pageSize: number,
): AsyncGenerator<LogEvent> {
  let wanted = leafSeq;
  while (wanted >= 0) {
    const page = await readEventsBefore(store, threadKey, wanted + 1, pageSize);
    if (page.length === 0) return;
    let found = false;
    for (const event of page) {
      if (event.seq !== wanted) continue;
      found = true;
      yield event;
      wanted = event.parent_seq;
    }
    if (!found) return;
  }
}
