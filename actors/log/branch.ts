import type { TenantStore } from "../../storage/store/store.ts";
import { type LogEvent, pageRows, readEvent, readEventsBefore } from "../../storage/tables/events.ts";
import { firstKeptSeq, openingMessage, openingSeq, summaryMessage } from "./compaction.ts";
import { type ContextMessage, messageOf } from "./message.ts";
import { refusesImages, showsImages, withRefusedImages } from "./refused-images.ts";

/** Position of the newest message when a branch is read from its end. */
export const newestPlace = 2 ** 30;

/**
 * Returns the newest `needed` messages of the active branch, oldest first. Follows the parents from the leaf in pages. Continues
 * until the window does not start inside a group of tool results and, with `withUser`, contains a user's message.
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
  /** Results whose calls were not read yet. Entries added during a call lie between the call and its result. */
  const parted = new Set<string | null>();
  // Events that a compaction summarized are not read.
  let firstKept = 0;
  let compaction: LogEvent | null = null;
  /** Number of older messages whose images a provider refused later. */
  let refused = 0;
  // Few events are not messages, so twice as many rows are nearly always enough.
  const pageSize = Math.min(pageRows, needed * 2 + 8);
  for await (const event of branchEvents(store, threadKey, leafSeq, pageSize)) {
    if (event.seq < firstKept) break;
    if (event.kind === "compaction" && compaction === null) {
      compaction = event;
      firstKept = firstKeptSeq(event);
    }
    if (refusesImages(event)) refused++;
    let message = messageOf(event);
    if (!message) continue;
    if (refused > 0 && showsImages(message)) {
      message = withRefusedImages(message);
      refused--;
    }
    message.place = newestPlace - newestFirst.length;
    newestFirst.push(message);
    hasUser ||= message.role === "user";
    if (message.role === "tool") parted.add(message.tool_call_id);
    for (const { id } of message.tool_calls ?? []) parted.delete(id);
    if (hasUser && newestFirst.length >= needed && parted.size === 0) return inCallOrder(newestFirst.reverse(), 0);
  }
  if (compaction !== null) {
    const opening = await openingOf(store, threadKey, compaction);
    if (opening !== null) newestFirst.push(opening.message);
    newestFirst.push(summaryMessage(compaction));
  }
  return inCallOrder(newestFirst.reverse(), 0);
}

/** Returns the opening message of the turn that a compaction splits, shortened as stored; null if it splits no turn. */
export async function openingOf(
  store: TenantStore,
  threadKey: number,
  compaction: LogEvent,
): Promise<{ readonly seq: number; readonly message: ContextMessage } | null> {
  const seq = openingSeq(compaction);
  const event = seq === null ? undefined : await readEvent(store, threadKey, seq);
  const message = event === undefined ? null : messageOf(event);
  return message === null || seq === null ? null : { seq, message: openingMessage(message, compaction) };
}

/** Returns a branch extended by new events. */
export function addEvents(branch: readonly ContextMessage[], events: readonly LogEvent[]): ContextMessage[] {
  const longer = [...branch];
  let place = branch.reduce((most, message) => Math.max(most, message.place), 0);
  for (const event of events) {
    if (refusesImages(event)) {
      const at = longer.findLastIndex(showsImages);
      if (at >= 0) longer[at] = withRefusedImages(longer[at] as ContextMessage);
    }
    const message = messageOf(event);
    if (!message) continue;
    message.place = ++place;
    longer.push(message);
  }
  return inCallOrder(longer, branch.length);
}

/**
 * Sorts the results from `from` on into the order of their calls, because parallel calls end in any order. Later turns then
 * repeat the same prompt text, which providers cache. Entries that a client added during the calls move before the message with
 * the calls, because providers allow nothing between calls and results.
 */
export function inCallOrder(messages: ContextMessage[], from: number): ContextMessage[] {
  let at = from;
  // Results at `from` may belong to earlier calls.
  while (at < messages.length && messages[at]?.role !== "tool" && !hasCalls(messages[at])) at++;
  if (messages[at]?.role === "tool") while (at > 0 && !hasCalls(messages[at])) at--;
  for (; at < messages.length; at++) {
    if (!hasCalls(messages[at])) continue;
    at += moveAddedBefore(messages, at);
    const calls = messages[at]?.tool_calls ?? [];
    let end = at + 1;
    while (messages[end]?.role === "tool") end++;
    if (calls.length > 1 && end - at > 2) {
      const place = new Map(calls.map(({ id }, index) => [id, index]));
      const results = messages.slice(at + 1, end);
      results.sort((a, b) => (place.get(a.tool_call_id ?? "") ?? 0) - (place.get(b.tool_call_id ?? "") ?? 0));
      messages.splice(at + 1, results.length, ...results);
    }
    at = end - 1;
  }
  return messages;
}

function hasCalls(message: ContextMessage | undefined): boolean {
  return (message?.tool_calls?.length ?? 0) > 0;
}

/** Moves entries between a message's calls and their last result before the message; returns their number. */
function moveAddedBefore(messages: ContextMessage[], at: number): number {
  const open = new Set(messages[at]?.tool_calls?.map(({ id }) => id));
  const added: number[] = [];
  for (let next = at + 1; open.size > 0 && next < messages.length; next++) {
    const { role, tool_calls, tool_call_id } = messages[next] as ContextMessage;
    if (tool_calls !== null) break;
    if (role === "tool") open.delete(tool_call_id ?? "");
    else added.push(next);
  }
  const moved = added.map((next) => messages[next] as ContextMessage);
  for (const next of added.toReversed()) messages.splice(next, 1);
  messages.splice(at, 0, ...moved);
  return moved.length;
}

/** Yields the events of the active branch from the leaf to the root. */
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
