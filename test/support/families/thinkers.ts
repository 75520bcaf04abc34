import type { ChatBody, Family, Refusal } from "./family.ts";
import { currentTurn, saysNothing, unpairedCall } from "./rules.ts";

/** DeepSeek and Kimi, which require the thoughts before a call in later requests. */
export const thinkers: Family = {
  routes: {
    deepseek: { provider: "deepseek", model: "deepseek-v4-pro" },
    kimi: { provider: "moonshot", model: "kimi-k2.6" },
  },
  own: ["moonshot"],
  refusalOf(body) {
    const unpaired = unpairedCall(body);
    if (unpaired !== null) return refusal(unpaired);
    return body.model.startsWith("kimi") ? ofKimi(body) : ofDeepSeek(body);
  },
};

// https://api-docs.deepseek.com/guides/thinking_mode: `reasoning_content` of a message with calls is required in all
// later requests, an empty one too. The words: https://github.com/anomalyco/opencode/issues/24083
function ofDeepSeek({ messages }: ChatBody): Refusal | null {
  const isLost = messages.some(
    ({ tool_calls, reasoning_content }) => tool_calls !== undefined && typeof reasoning_content !== "string",
  );
  return isLost ? refusal("The reasoning_content in the thinking mode must be passed back to the API.") : null;
}

// https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model. The words: https://github.com/mastra-ai/mastra/issues/12592
function ofKimi(body: ChatBody): Refusal | null {
  const at = body.messages.findIndex(saysNothing);
  if (at >= 0) return refusal(`Invalid request: the message at position ${at} with role 'assistant' must not be empty`);
  const turn = currentTurn(body);
  const lost = turn.findIndex(
    ({ tool_calls, reasoning_content }) => tool_calls !== undefined && typeof reasoning_content !== "string",
  );
  if (lost < 0) return null;
  const index = body.messages.length - turn.length + lost;
  return refusal(
    `thinking is enabled but reasoning_content is missing in assistant tool call message at index ${index}`,
  );
}

function refusal(message: string): Refusal {
  return {
    status: 400,
    body: { error: { message, type: "invalid_request_error", param: null, code: "invalid_request_error" } },
  };
}
