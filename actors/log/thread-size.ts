import { SvcError } from "../../bus/errors.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { eventBytes, type LogEvent, pageRows, readEvent, readSizesBefore } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { uncountedBytes } from "../runtime/context-memory.ts";
import { firstKeptSeq } from "./compaction.ts";
import type { LogEntry } from "./entry.ts";

/** Max bytes of the log that a turn loads, back to the last compaction (decision 218: longer threads must be compacted first). */
export const loadedBytesMax = 16 * 1024 * 1024;

/**
 * Counts the bytes that `loadBranch` would read with the same arguments, without reading the contents. Stops after
 * `loadedBytesMax`.
 */
async function branchBytes(
  store: TenantStore,
  threadKey: number,
  leafSeq: number,
  needed: number,
  withUser: boolean,
): Promise<number> {
  let wanted = leafSeq;
  let bytes = 0;
  let messages = 0;
  let hasUser = !withUser;
  let firstKept: number | null = null;
  /** True if results were read but not their calls; entries added during the calls lie between them. */
  let isParted = false;
  while (wanted >= 0 && bytes <= loadedBytesMax) {
    const page = await readSizesBefore(store, threadKey, wanted + 1, pageRows);
    const before = wanted;
    for (const row of page) {
      if (row.seq !== wanted) continue;
      if (firstKept !== null && row.seq < firstKept) return bytes;
      if (row.kind === "compaction" && firstKept === null) {
        const compaction = await readEvent(store, threadKey, row.seq);
        firstKept = compaction === undefined ? null : firstKeptSeq(compaction);
      }
      bytes += row.bytes;
      hasUser ||= row.role === "user";
      if (row.role === "tool" || row.role === "assistant") isParted = row.role === "tool";
      const isMessage = row.kind === "message" || row.kind === "tool_result";
      if (isMessage && ++messages >= needed && hasUser && !isParted) return bytes;
      wanted = row.parent_seq;
    }
    if (wanted === before) return bytes;
  }
  return bytes;
}

/** The part of a branch that a reader does not load. */
export interface OlderPart {
  readonly bytes: number;
  /** The newest compaction of the whole branch; null for none. */
  readonly compaction: LogEvent | null;
}

/**
 * Measures the branch that ends with an event, back to the first event that its newest compaction keeps, without reading the
 * contents.
 */
export async function olderPart(
  store: TenantStore,
  threadKey: number,
  lastSeq: number,
  newest: LogEvent | null,
): Promise<OlderPart> {
  let compaction = newest;
  let bytes = 0;
  for (let wanted = lastSeq; wanted >= 0; ) {
    const before = wanted;
    for (const row of await readSizesBefore(store, threadKey, wanted + 1, pageRows)) {
      if (row.seq !== wanted) continue;
      if (compaction !== null && row.seq < firstKeptSeq(compaction)) return { bytes, compaction };
      if (row.kind === "compaction") compaction ??= (await readEvent(store, threadKey, row.seq)) ?? null;
      bytes += row.bytes;
      wanted = row.parent_seq;
    }
    if (wanted === before) break;
  }
  return { bytes, compaction };
}

/**
 * Counts the bytes that a turn of a stored thread would load; 0 for a short log. Refuses with thread_too_large above
 * `loadedBytesMax`.
 */
export async function branchBytesOf(
  store: TenantStore,
  { thread_key, leaf_seq, bytes }: Pick<ThreadRow, "thread_key" | "leaf_seq" | "bytes">,
  needed: number,
  withUser: boolean,
): Promise<number> {
  if (bytes <= uncountedBytes) return 0;
  const loaded = await branchBytes(store, thread_key, leaf_seq, needed, withUser);
  if (loaded <= loadedBytesMax) return loaded;
  const message = `A turn would read more than ${loadedBytesMax} bytes of the thread: POST /chat/compact summarises its older part.`;
  throw new SvcError("thread_too_large", { message });
}

/** Returns the bytes that may still be appended to a log. */
export function roomOf(head: Pick<ThreadRow, "bytes"> | null, { threadBytes }: Pick<Settings, "threadBytes">): number {
  return threadBytes - (head?.bytes ?? 0);
}

/** Returns the refusal of an entry that would exceed SVC_THREAD_BYTES. */
export function threadFull({ threadBytes }: Pick<Settings, "threadBytes">): SvcError {
  const message = `The thread's log would have more than ${threadBytes} bytes (SVC_THREAD_BYTES): use another thread.`;
  return new SvcError("thread_too_large", { message });
}

/** Refuses entries that exceed the room with thread_too_large. */
export function checkRoom(
  entries: readonly Pick<LogEntry, "content" | "extra">[],
  room: number,
  settings: Pick<Settings, "threadBytes">,
): void {
  let bytes = 0;
  for (const entry of entries) bytes += eventBytes(entry);
  if (bytes > room) throw threadFull(settings);
}
