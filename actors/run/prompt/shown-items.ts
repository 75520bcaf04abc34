import type { ShownItem } from "../../../storage/tables/model-calls.ts";
import { type ContextMessage, seqOf } from "../../log/message.ts";

/**
 * Where messages stand in the log of their conversation, in their order. Those that were read from it together are told by the first and
 * the last of them, as no other message is between two of them; what is in no log goes to `words`, which answers its digest.
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

/** Messages that were read from the log, of which results may stand in the order of their calls. */
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
