import type { ChatBody, ChatMessage, Family, Json, Refusal } from "./family.ts";
import { currentTurn, proofOf, saysNothing, unpairedCall } from "./rules.ts";

/** OpenRouter and LiteLLM, as gateways to a thinking model of Anthropic. */
export const gateways: Family = {
  routes: {
    openrouter: { provider: "openrouter", model: "anthropic/claude-sonnet-5" },
    litellm: { provider: "litellm", model: "claude-thinks" },
  },
  own: ["litellm"],
  refusalOf(body) {
    const unpaired = unpairedCall(body);
    if (unpaired !== null) return refusal(unpaired);
    // The text is that of the provider: https://platform.claude.com/docs/en/api/errors
    if (body.messages.some(saysNothing)) return refusal("messages: text content blocks must be non-empty");
    return body.model === "claude-thinks" ? ofLiteLlm(body) : ofOpenRouter(body);
  },
};

/** A thought with its proof, in LiteLLM's form. */
export function signedThought(thinking: string): Json {
  return { type: "thinking", thinking, signature: proofOf(thinking) };
}

/** The same in OpenRouter's form. */
export function reasoningDetail(text: string, index: number): Json {
  return { type: "reasoning.text", text, signature: proofOf(text), format: "anthropic-claude-v1", index };
}

// https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: the reasoning_details of a message with calls must
// be returned unchanged.
function ofOpenRouter(body: ChatBody): Refusal | null {
  const isGenuine = ({ type, text, signature }: Json) =>
    type === "reasoning.encrypted" || signature === proofOf(String(text));
  return refusedCalls(body, (message) => listOf(message.reasoning_details).length > 0, "reasoning_details", isGenuine);
}

// https://docs.litellm.ai/docs/reasoning_content: the thinking_blocks of a message with calls must be returned with it.
function ofLiteLlm(body: ChatBody): Refusal | null {
  const isGenuine = ({ thinking, signature }: Json) => signature === proofOf(String(thinking));
  return refusedCalls(body, (message) => listOf(message.thinking_blocks).length > 0, "thinking_blocks", isGenuine);
}

function refusedCalls(
  body: ChatBody,
  hasThoughts: (message: ChatMessage) => boolean,
  field: string,
  isGenuine: (block: Json) => boolean,
): Refusal | null {
  for (const message of body.messages)
    if (!listOf(message[field]).every(isGenuine)) return refusal("Invalid `signature` in `thinking` block");
  const asked = currentTurn(body).filter(({ tool_calls }) => tool_calls !== undefined);
  if (asked.every(hasThoughts)) return null;
  // https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks
  return refusal("Expected `thinking` or `redacted_thinking`, but found `tool_use`.");
}

function listOf(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}

function refusal(message: string): Refusal {
  return { status: 400, body: { error: { message, code: 400 } } };
}
