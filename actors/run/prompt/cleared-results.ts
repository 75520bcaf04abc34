import type { ClearedResults } from "../../../manifests/sections/session.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";

/** What the model reads in the place of a result, made once: the same words at every call, so that providers find them in their caches. */
const stubs = new WeakMap<ContextMessage, ContextMessage>();

/**
 * The messages with notes in the place of old tool results: those before the newest `keep_turns` messages of users that are longer than
 * `min_chars` or carry an image. The same list when there is nothing to clear.
 */
export function clearResults(
  messages: readonly ContextMessage[],
  { keep_turns, min_chars }: ClearedResults,
): readonly ContextMessage[] {
  const end = turnsStart(messages, keep_turns);
  let cleared: ContextMessage[] | null = null;
  for (let at = 0; at < end; at++) {
    const message = messages[at] as ContextMessage;
    if (message.role !== "tool" || (message.content.length <= min_chars && message.attachments === null)) continue;
    cleared ??= [...messages];
    cleared[at] = stubOf(message);
  }
  return cleared ?? messages;
}

/** Where the newest so many messages of users begin; 0 when there are not as many. */
function turnsStart(messages: readonly ContextMessage[], turns: number): number {
  let left = turns;
  for (let at = messages.length - 1; at >= 0; at--) if (messages[at]?.role === "user" && --left === 0) return at;
  return 0;
}

function stubOf(message: ContextMessage): ContextMessage {
  let stub = stubs.get(message);
  if (stub === undefined) {
    const images = message.attachments === null ? "" : ` and ${message.attachments.length} attached`;
    stub = contextMessage({
      role: "tool",
      content: `[This result was cleared: ${message.content.length} characters${images}.]`,
      tool_call_id: message.tool_call_id ?? undefined,
      seq: message.seq,
      entry: message.entry,
      short: "cleared",
    });
    stub.place = message.place;
    stubs.set(message, stub);
  }
  return stub;
}
