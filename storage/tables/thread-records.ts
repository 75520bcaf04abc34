import type { TenantStore } from "../store/store.ts";
import { newestRecord } from "./events.ts";
import { threadBySuffix } from "./threads.ts";

/** A record of a thread. */
export interface StoredRecord {
  readonly seq: number;
  readonly ts: number;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Returns the newest record of a type in the thread with a suffix; undefined without the thread or a record. */
export async function recordOfThread(
  store: TenantStore,
  suffix: string,
  type: string,
): Promise<StoredRecord | undefined> {
  const thread = await threadBySuffix(store, suffix);
  if (thread === undefined) return undefined;
  const event = await newestRecord(store, thread.thread_key, type);
  return event && { seq: event.seq, ts: event.ts, data: event.extra?.metadata ?? {} };
}
