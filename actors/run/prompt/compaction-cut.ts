import type { ContextMessage } from "../../log/message.ts";

/** A message of the branch with its position and its weight in tokens. */
export interface BranchItem {
  /** The sequence number in the log; -1 without one. */
  readonly seq: number;
  readonly message: ContextMessage;
  readonly tokens: number;
  /** True for the opening of a turn that an earlier compaction has cut through. */
  readonly isCarried: boolean;
}

/** The position at which a branch is cut. Items before it are summarized. */
export interface Cut {
  /** Index of the first item that is kept. */
  readonly at: number;
  /** The opening of the turn that the cut splits; null if the cut is between turns. */
  readonly opening: KeptOpening | null;
}

/** The user message that opens a turn, possibly shortened. */
export interface KeptOpening {
  readonly item: BranchItem;
  readonly message: ContextMessage;
  readonly tokens: number;
}

/** Max tokens and messages that stay after a cut. The stricter bound decides. */
export interface KeepRule {
  readonly tokens: number;
  readonly messages: number;
}

/** A branch before the cut, in the order of the log. */
export interface Uncut {
  readonly items: readonly BranchItem[];
  /** Index of the user message that opens the running turn. */
  readonly turnFirst: number;
}

/**
 * Chooses the cut that keeps as much of the end as the rule allows, and at least the last group. A group is a reply with calls and all
 * their results. Null if nothing is left to summarize. `shorten` limits the opening of a split turn; the rest of the opening is summarized.
 */
export function planCut(uncut: Uncut, keep: KeepRule, shorten: (opening: BranchItem) => KeptOpening): Cut | null {
  const cut = cutBy(uncut, keep, shorten);
  if (cut === null || cut.opening === null) return cut;
  // The tokens of the opening count against the rule, so the cut is chosen again with fewer tokens.
  return cutBy(uncut, { ...keep, tokens: keep.tokens - cut.opening.tokens }, shorten) ?? cut;
}

function cutBy({ items, turnFirst }: Uncut, keep: KeepRule, shorten: (opening: BranchItem) => KeptOpening): Cut | null {
  const places = cutPlaces(items);
  let chosen: number | null = null;
  let tokens = 0;
  let messages = 0;
  for (let at = items.length - 1; ; at--) {
    // The whole branch is within the rule.
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

/** Tokens that a cut leaves to the summary. */
export function tokensCut(items: readonly BranchItem[], { at, opening }: Cut): number {
  const isShort = opening !== null && opening.message !== opening.item.message;
  let tokens = isShort ? Math.max(0, opening.item.tokens - opening.tokens) : 0;
  for (const item of items.slice(0, at)) if (!item.isCarried && item !== opening?.item) tokens += item.tokens;
  return tokens;
}

/** Indexes before which a branch may be cut: those at which no call is open. */
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
 * Index after the last result of the calls at `at`. Messages that a client or a person added while a call was open belong to the group. A
 * later reply with calls ends the group, because older calls are never answered after it.
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
 * The last user message that opens the turn of the cut; null if the cut does not split that turn. An earlier turn begins after the reply
 * before it.
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
