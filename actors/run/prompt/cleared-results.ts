import type { ClearedResults } from "../../../manifests/sections/session.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";

/**
 * Notes that replace cleared results, cached per message. The text must be the same in every call, so that the provider's prompt cache
 * matches.
 */
const stubs = new WeakMap<ContextMessage, ContextMessage>();

/**
 * Replaces old tool results by notes. A result is cleared if it precedes the newest `keep_turns` user messages, and is longer than
 * `min_chars` or has an image. Returns the same list if nothing is cleared.
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

/** Index of the oldest of the newest `turns` user messages; 0 if there are fewer. */
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
      taint: message.taint,
    });
    stub.place = message.place;
    stubs.set(message, stub);
  }
  return stub;
}
