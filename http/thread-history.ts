import { threadAddress } from "../bus/address.ts";
import { branchBefore } from "../storage/tables/branches.ts";
import { activeBranch, eventPages } from "./active-branch.ts";
import type { HttpContext } from "./context.ts";
import { json, type Reply } from "./exchange/reply.ts";
import { historyPieces, historyWindow } from "./history.ts";

/** Max events of one answer. */
export const historyMax = 5000;

/** Returns the newest events of a thread's active branch before a number, in the form for clients. */
export async function threadHistory(
  context: HttpContext,
  tenantId: string,
  suffix: string,
  { limit, before }: { readonly limit: number; readonly before: number },
): Promise<Reply> {
  const thread_id = `${tenantId}:${suffix}`;
  const { thread, branch } = await activeBranch(context, threadAddress(tenantId, suffix));
  if (!thread) return json({ thread_id, messages: [], events: [], oldest_seq: 0, has_more: false });
  const tenant = context.store.tenant(tenantId);
  const window = await historyWindow(
    tenant,
    thread.thread_key,
    branchBefore(branch, before),
    Math.min(limit, historyMax),
  );
  const oldest = window[0]?.from ?? Math.min(before, branch.at(-1)?.to ?? 0);
  const pieces = historyPieces(
    { thread_id, oldest_seq: oldest, has_more: branch.some(({ from }) => from < oldest) },
    () => eventPages(context, tenant, thread.thread_key, window),
  );
  return { kind: "pieces", contentType: "application/json", pieces };
}
