import type { TenantStore } from "../storage/store/store.ts";
import { type EventExtra, type LogEvent, type SeqRange, windowStart } from "../storage/tables/events.ts";

// The answer of GET /chat/history: events of a branch in the form for clients. It may have many megabytes, so it is made page by page.

const historyBytesMax = 16 * 1024 * 1024;

/** Returns the ranges of the newest events of a branch, at most `countMax` events and about 16 MiB. */
export async function historyWindow(
  tenant: TenantStore,
  threadKey: number,
  branch: readonly SeqRange[],
  countMax: number,
): Promise<SeqRange[]> {
  const newestFirst: SeqRange[] = [];
  let left = countMax;
  let bytesLeft = historyBytesMax;
  for (const range of branch.toReversed()) {
    if (left === 0 || bytesLeft <= 0) break;
    const { start, bytes } = await windowStart(tenant, threadKey, range, left, bytesLeft);
    newestFirst.push({ from: start, to: range.to });
    left -= range.to - start;
    bytesLeft -= bytes;
    if (start > range.from) break;
  }
  return newestFirst.reverse();
}

/** The fields of the answer other than its events. */
export interface HistoryHead {
  readonly thread_id: string;
  readonly oldest_seq: number;
  readonly has_more: boolean;
}

/**
 * Yields the JSON of an answer. The events occur twice in it (`messages` and `events`), so a list longer than a page is read twice and
 * memory holds one page.
 */
export async function* historyPieces(
  { thread_id, ...rest }: HistoryHead,
  pages: () => AsyncIterable<readonly LogEvent[]>,
): AsyncGenerator<string, void, undefined> {
  const after = `],${JSON.stringify(rest).slice(1)}`;
  const all = itemsOf(pages());
  const { value: first = "" } = await all.next();
  const second = await all.next();
  yield `{"thread_id":${JSON.stringify(thread_id)},"messages":[${first}`;
  if (second.done) {
    yield `],"events":[${first}${after}`;
    return;
  }
  yield second.value;
  yield* all;
  yield '],"events":[';
  yield* itemsOf(pages());
  yield after;
}

/** Yields the items of each page as a part of a JSON list. */
async function* itemsOf(pages: AsyncIterable<readonly LogEvent[]>): AsyncGenerator<string, void, undefined> {
  let comma = "";
  for await (const page of pages) {
    const items = page.filter(isTranscript).map((event) => JSON.stringify(historyItem(event)));
    if (items.length === 0) continue;
    yield comma + items.join(",");
    comma = ",";
  }
}

/** Clients do not get intents of tool calls, which are for recovery, nor audit events such as run_interrupted, which the snapshot shows. */
function isTranscript(event: LogEvent): boolean {
  return event.kind !== "tool_call" && event.kind !== "audit";
}

function historyItem({ role, content, seq, kind, extra }: LogEvent) {
  return {
    role,
    content,
    seq,
    kind,
    ...(extra?.tool_calls === undefined ? {} : { tool_calls: extra.tool_calls }),
    ...(extra?.tool_call_id === undefined ? {} : { tool_call_id: extra.tool_call_id }),
    ...(extra?.name === undefined ? {} : { name: extra.name }),
    ...metadataOf(extra),
  };
}

/** The images of a message, and the parts of documents that a result quotes. */
function metadataOf(extra: EventExtra | null): { metadata?: Record<string, unknown> } {
  const { attachments, sources } = extra?.metadata ?? {};
  if (attachments === undefined && sources === undefined) return {};
  return { metadata: { ...(attachments !== undefined && { attachments }), ...(sources !== undefined && { sources }) } };
}
