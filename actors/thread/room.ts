import type { TenantStore } from "../../storage/store/store.ts";
import { eventBytes } from "../../storage/tables/events.ts";
import { admitThreadBytes } from "../../storage/tables/thread-quota.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import type { LogEntry } from "../log/entry.ts";
import { checkRoom, roomOf, threadFull } from "../log/thread-size.ts";
import type { ThreadDeps } from "./deps.ts";
import type { ThreadState } from "./thread-state.ts";

// How much a thread and all threads of a tenant may hold (decision 218). Only what comes from a client is refused: a run that has
// begun writes to its end.

/** Refuses with thread_too_large and storage_quota_exceeded a request that would append about so many bytes. */
export async function admitBytes(
  store: TenantStore,
  head: Pick<ThreadRow, "bytes"> | null,
  bytes: number,
  settings: ThreadDeps["settings"],
): Promise<void> {
  if (roomOf(head, settings) <= 0) throw threadFull(settings);
  if (settings.tenantThreadBytes > 0) await admitThreadBytes(store, bytes, settings.tenantThreadBytes);
}

/** The same for an entry that a client adds. */
export async function admitEntry(
  { head, store }: ThreadState,
  entry: Pick<LogEntry, "content" | "extra">,
  { settings }: ThreadDeps,
): Promise<void> {
  checkRoom([entry], roomOf(head, settings), settings);
  if (settings.tenantThreadBytes > 0) await admitThreadBytes(store, eventBytes(entry), settings.tenantThreadBytes);
}
