import type { ShownItem } from "../../../storage/tables/model-calls.ts";
import { type ContextMessage, seqOf } from "../../log/message.ts";

/**
 * Describes messages by their positions in the log, in their order. Consecutive messages that were read from the log together become one
 * range. Messages that are in no log are passed to `words`, which returns a digest.
 */
export function shownItems(
  messages: readonly ContextMessage[],
  words: (message: ContextMessage) => string,
): ShownItem[] {
  const items: ShownItem[] = [];
  for (let at = 0; at < messages.length; ) {
    const message = messages[at] as ContextMessage;
    if (message.place >= 0) {
      let end = at + 1;
      while (end < messages.length && (messages[end] as ContextMessage).place >= 0) end++;
      addRanges(items, messages, at, end);
      at = end;
      continue;
    }
    const seq = seqOf(message);
    if (seq < 0) items.push(words(message));
    else if (message.short === null || message.short === "cleared") items.push(seq);
    else items.push({ short: seq, ...message.short });
    at++;
  }
  return items;
}

/** Adds the ranges of messages that were read from the log. Their results may be sorted by call instead of by sequence number. */
function addRanges(items: ShownItem[], messages: readonly ContextMessage[], from: number, to: number): void {
  let [first, last] = [messages[from] as ContextMessage, messages[from] as ContextMessage];
  for (let at = from + 1; at < to; at++) {
    const message = messages[at] as ContextMessage;
    if (message.place < first.place) first = message;
    if (message.place > last.place) last = message;
  }
  if (last.place - first.place + 1 === to - from) {
    items.push([first.seq, last.seq]);
    return;
  }
  const sorted = messages.slice(from, to).sort((a, b) => a.place - b.place);
  let begin = 0;
  for (let at = 1; at <= sorted.length; at++) {
    if (at < sorted.length && sorted[at]?.place === (sorted[at - 1]?.place ?? 0) + 1) continue;
    items.push([(sorted[begin] as ContextMessage).seq, (sorted[at - 1] as ContextMessage).seq]);
    begin = at;
  }
}
