import type { ClientMessage } from "../../bus/protocol/run.ts";

// Converts the messages of POST /v1/chat/completions for turns.

/** A message as clients of this protocol write it: absent values may be null. */
export interface CompletionMessage extends Omit<ClientMessage, "name" | "tool_call_id"> {
  readonly name?: string | null;
  readonly tool_call_id?: string | null;
  readonly refusal?: unknown;
}

/** Returns the messages without empty fields. A refusal of the assistant becomes its content. */
export function completionMessages(messages: readonly CompletionMessage[]): ClientMessage[] {
  return messages.map((message) => {
    const { name, tool_call_id, refusal: _, content, ...rest } = message;
    return {
      ...rest,
      content: message.role === "assistant" ? withRefusal(message) : content,
      ...(typeof name === "string" && { name }),
      ...(typeof tool_call_id === "string" && { tool_call_id }),
    };
  });
}

function withRefusal({ content, refusal }: CompletionMessage): unknown {
  if (Array.isArray(content)) return content.map(withoutRefusal);
  const saysNothing = content === undefined || content === null || content === "";
  return saysNothing && typeof refusal === "string" ? refusal : content;
}

function withoutRefusal(part: unknown): unknown {
  const { type, refusal } = Object(part) as { readonly type?: unknown; readonly refusal?: unknown };
  return type === "refusal" && typeof refusal === "string" ? { type: "text", text: refusal } : part;
}
