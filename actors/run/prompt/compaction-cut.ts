import type { ContextMessage } from "../../log/message.ts";

/** A message of the branch as a compaction weighs it. */
export interface BranchItem {
  /** Its place in the log; -1 without one. */
  readonly seq: number;
  readonly message: ContextMessage;
  readonly tokens: number;
  /** The opening of a turn that a compaction has cut through before. */
  readonly isCarried: boolean;
}

/** Where a branch is cut: what is before is summed up. */
export interface Cut {
  /** The first item that is kept. */
  readonly at: number;
  /** The opening of the turn that is cut through; null when none is. */
  readonly opening: KeptOpening | null;
}

/** The opening of a turn as far as it is kept. */
export interface KeptOpening {
  readonly item: BranchItem;
  readonly message: ContextMessage;
  readonly tokens: number;
}

/** Who decides how much is kept: tokens, or messages. */
export interface KeepRule {
  readonly tokens: number;
  readonly messages: number;
}

/** What is to be cut. Items stand as in the log. */
export interface Uncut {
  readonly items: readonly BranchItem[];
  /** Where the running turn begins, with the user's message. */
  readonly turnFirst: number;
}

/**
 * The cut that keeps as much of the end as the rule allows, and the last group in any case: a call is never parted from its results. Of an
 * opening there is kept what `shorten` leaves, and the rest of it is summed up like what is before. Null when there is nothing to sum up.
 */
export function planCut(uncut: Uncut, keep: KeepRule, shorten: (opening: BranchItem) => KeptOpening): Cut | null {
  const cut = cutBy(uncut, keep, shorten);
  if (cut === null || cut.opening === null) return cut;
  // An opening takes its place from what else is kept.
  return cutBy(uncut, { ...keep, tokens: keep.tokens - cut.opening.tokens }, shorten) ?? cut;
}

function cutBy({ items, turnFirst }: Uncut, keep: KeepRule, shorten: (opening: BranchItem) => KeptOpening): Cut | null {
  const places = cutPlaces(items);
  let chosen: number | null = null;
  let tokens = 0;
  let messages = 0;
  for (let at = items.length - 1; ; at--) {
    // All of it is within the rule.
    if (at < 0) return null;
    tokens += (items[at] as BranchItem).tokens;
    messages++;
    if (chosen !== null && (tokens > keep.tokens || messages > keep.messages)) break;
    if (places.has(at)) chosen = at;
  }
  const opened = openingOf(items, chosen, turnFirst);
  const cut = { at: chosen, opening: opened === null ? null : shorten(opened) };
  return tokensCut(items, cut) > 0 ? cut : null;
}

/** Tokens of what a cut leaves to the summary. */
export function tokensCut(items: readonly BranchItem[], { at, opening }: Cut): number {
  const isShort = opening !== null && opening.message !== opening.item.message;
  let tokens = isShort ? Math.max(0, opening.item.tokens - opening.tokens) : 0;
  for (const item of items.slice(0, at)) if (!item.isCarried && item !== opening?.item) tokens += item.tokens;
  return tokens;
}

/** Before which items a branch may be cut: no call is open there. */
function cutPlaces(items: readonly BranchItem[]): Set<number> {
  const places = new Set<number>();
  let groupEnd = 0;
  for (const [at, { message }] of items.entries()) {
    if (at >= groupEnd && message.role !== "tool") places.add(at);
    if (hasCalls(message)) groupEnd = Math.max(groupEnd, endOfGroup(items, at));
  }
  return places;
}

/**
 * The item behind the last result of the calls at `at`. What a client or a person has added while a call was open is within the group,
 * whoever it says that it is of. Calls that another reply with calls has left behind are never answered any more.
 */
function endOfGroup(items: readonly BranchItem[], at: number): number {
  const open = new Set(items[at]?.message.tool_calls?.map(({ id }) => id));
  let end = at + 1;
  for (let next = at + 1; open.size > 0 && next < items.length; next++) {
    const message = items[next]?.message as ContextMessage;
    if (hasCalls(message)) break;
    if (message.role === "tool" && open.delete(message.tool_call_id ?? "")) end = next + 1;
  }
  return end;
}

/**
 * The last of the messages that a turn begins with, when the cut is behind it and before the turn's end. A turn before the running one
 * begins behind the answer before it.
 */
function openingOf(items: readonly BranchItem[], at: number, turnFirst: number): BranchItem | null {
  let first = at;
  if (at > turnFirst) first = turnFirst;
  else while (first > 0 && !isAnswer(items[first - 1]?.message)) first--;
  while (first < at && items[first]?.message.role !== "user") first++;
  let opening = first;
  while (items[opening + 1]?.message.role === "user") opening++;
  return opening < at ? (items[opening] ?? null) : null;
}

function isAnswer(message: ContextMessage | undefined): boolean {
  return message?.role === "assistant" && !hasCalls(message);
}

function hasCalls({ tool_calls }: ContextMessage): boolean {
  return (tool_calls?.length ?? 0) > 0;
}
