import type { TenantStore } from "../../storage/store/store.ts";
import { eventBytes } from "../../storage/tables/events.ts";
import { admitThreadBytes } from "../../storage/tables/thread-quota.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import type { LogEntry } from "../log/entry.ts";
import { checkRoom, roomOf, threadFull } from "../log/thread-size.ts";
import type { ThreadDeps } from "./deps.ts";
import type { ThreadState } from "./thread-state.ts";

// Size limits of a thread and of all threads of a tenant (decision 218: checked before a request appends). Only requests of
// clients are refused; a run that has begun may finish.

/** Refuses a request that would append this many bytes, with thread_too_large or storage_quota_exceeded. */
export async function admitBytes(
  store: TenantStore,
  head: Pick<ThreadRow, "bytes"> | null,
  bytes: number,
  settings: ThreadDeps["settings"],
): Promise<void> {
  if (roomOf(head, settings) <= 0) throw threadFull(settings);
  if (settings.tenantThreadBytes > 0) await admitThreadBytes(store, bytes, settings.tenantThreadBytes);
}

/** Checks an entry that a client adds. */
export async function admitEntry(
  { head, store }: ThreadState,
  entry: Pick<LogEntry, "content" | "extra">,
  { settings }: ThreadDeps,
): Promise<void> {
  checkRoom([entry], roomOf(head, settings), settings);
  if (settings.tenantThreadBytes > 0) await admitThreadBytes(store, eventBytes(entry), settings.tenantThreadBytes);
}
