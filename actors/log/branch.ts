import type { TenantStore } from "../../storage/store/store.ts";
import { type LogEvent, pageRows, readEvent, readEventsBefore } from "../../storage/tables/events.ts";
import { firstKeptSeq, openingMessage, openingSeq, summaryMessage } from "./compaction.ts";
import { type ContextMessage, messageOf } from "./message.ts";
import { refusesImages, showsImages, withRefusedImages } from "./refused-images.ts";

/** The place of the newest message of a branch that is read from its end. */
export const newestPlace = 2 ** 30;

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
  /** Ids of results whose calls were not read yet. Entries added while a call was open lie between the call and its result. */
  const parted = new Set<string | null>();
  // What a compaction has summed up is not read.
  let firstKept = 0;
  let compaction: LogEvent | null = null;
  /** Messages before this event whose images a provider has refused since. */
  let refused = 0;
  // Every message has few events beside it that are not messages: twice as many rows are nearly always enough.
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

/** The opening of the turn that a compaction cuts through, as it is kept; null when it cuts through none. */
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

/** A branch with what was appended to it since. */
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
 * Puts the results from `from` on into the order of their calls, as the model saw them in the turn: parallel calls end in any
 * order. So a later turn begins with the same words, which providers keep in their caches. What a client has added while calls were
 * under way stands before the reply that asks for them, as providers take nothing between calls and results.
 */
export function inCallOrder(messages: ContextMessage[], from: number): ContextMessage[] {
  let at = from;
  // Results may be of calls before.
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

/** Moves what stands between the calls of a message and the last of their results before it; answers how many that were. */
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
