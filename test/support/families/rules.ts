import { createHash } from "node:crypto";
import type { ChatBody, ChatCall, ChatMessage } from "./family.ts";

// Rules that several families share.

/** Results that do not follow the calls that they are of, or calls without results; null when all do. */
export function unpairedCall({ messages }: ChatBody): string | null {
  const open = new Set<string>();
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (role === "tool") {
      if (!open.delete(String(tool_call_id)))
        return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'";
      continue;
    }
    if (open.size > 0)
      return `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(", ")}`;
    for (const { id } of tool_calls ?? []) open.add(id);
  }
  return open.size === 0 ? null : "An assistant message with 'tool_calls' must be followed by tool messages";
}

/** All calls of a request. */
export function callsOf({ messages }: ChatBody): ChatCall[] {
  return messages.flatMap(({ tool_calls = [] }) => tool_calls);
}

/** The messages after the user's last one. */
export function currentTurn({ messages }: ChatBody): readonly ChatMessage[] {
  return messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
}

/** True if an assistant's message has neither text nor calls. */
export function saysNothing({ role, content, tool_calls = [] }: ChatMessage): boolean {
  const words = typeof content === "string" ? content.trim() : (content ?? "");
  return role === "assistant" && words === "" && tool_calls.length === 0;
}

/** True if a text is a JSON object. */
export function isJsonObject(text: unknown): boolean {
  try {
    const value: unknown = JSON.parse(String(text));
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** The proof with which a stand-in recognises its own text. */
export function proofOf(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
